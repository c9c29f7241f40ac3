"""Recorded observations: whole, as hashes, as JSON, or none. Pure."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from runspine.sdk.encoding import HASH_BYTES, NUMERIC, digest, dumps, little, plain
from runspine.wire.v1.telemetry_pb2 import Array, Reset, StepBlock

# Types of columns that a worker makes of plain JSON; observations of narrower types compare by value.
WIDEST = ("|b1", "<i8", "<f8")


class NoObservations:
    """No observations were kept: any observation matches."""

    kind = "none"

    def matches(self, row: int, observation: Any) -> bool:
        return True

    def value(self, row: int) -> Any:
        """The recorded observation; None when only its hash is known."""
        return None

    def shown(self, row: int) -> Any:
        """The recorded observation for people: the value, or its hash."""
        return None

    def shown_like(self, observation: Any) -> Any:
        """An observation in the form of `shown`."""
        return plain(observation)


class FullObservations(NoObservations):
    """Observations of one type and shape, kept whole."""

    kind = "whole"

    def __init__(self, column: Array) -> None:
        self.dtype = np.dtype(column.dtype)
        self.shape = tuple(column.shape)
        self._data = column.data
        self._width = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    def matches(self, row: int, observation: Any) -> bool:
        at = row * self._width
        expected = self._data[at : at + self._width]
        if type(observation) is np.ndarray and observation.dtype is self.dtype:
            return observation.shape == self.shape and observation.tobytes() == expected
        if type(observation) is int and not self.shape and self.dtype.str == "<i8":
            return observation == int.from_bytes(expected, "little", signed=True)
        seen = little(np.asarray(observation))
        if seen.shape != self.shape or seen.dtype.kind not in NUMERIC:
            return False
        if seen.dtype == self.dtype:
            return seen.tobytes() == expected
        fits = self.dtype.str in WIDEST and np.can_cast(seen.dtype, self.dtype, "safe")
        return fits and bool(np.array_equal(seen.astype(self.dtype), self.value(row), equal_nan=True))

    def value(self, row: int) -> Any:
        at = row * self._width
        flat = np.frombuffer(self._data[at : at + self._width], self.dtype)
        return flat.reshape(self.shape) if self.shape else flat[0]

    def shown(self, row: int) -> Any:
        return plain(self.value(row))


class HashedObservations(NoObservations):
    """A hash of eight bytes for each observation."""

    kind = "hash"

    def __init__(self, hashes: bytes) -> None:
        self._hashes = hashes

    def matches(self, row: int, observation: Any) -> bool:
        expected = self._hashes[row * HASH_BYTES : (row + 1) * HASH_BYTES]
        return digest(observation) == expected or any(
            digest(form) == expected for form in _worker_forms(observation)
        )

    def shown(self, row: int) -> Any:
        return f"hash {self._hashes[row * HASH_BYTES : (row + 1) * HASH_BYTES].hex()}"

    def shown_like(self, observation: Any) -> Any:
        return f"hash {digest(observation).hex()}"


class TextObservations(NoObservations):
    """The JSON text of each observation."""

    kind = "json"

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def matches(self, row: int, observation: Any) -> bool:
        text = dumps(observation)
        # Texts that differ may hold the same value: keys in another order.
        return text == self._texts[row] or _same(json.loads(text), self.value(row))

    def value(self, row: int) -> Any:
        return json.loads(self._texts[row])

    def shown(self, row: int) -> Any:
        return self.value(row)


def observations_in(record: StepBlock | Reset) -> NoObservations:
    """The observations of a block of steps, or of a reset."""
    if record.HasField("observation"):
        return FullObservations(record.observation)
    if record.observation_json:
        one = record.observation_json
        return TextObservations([one] if isinstance(one, str) else list(one))
    return HashedObservations(record.observation_hash) if record.observation_hash else NoObservations()


def _worker_forms(observation: Any) -> list[bytes]:
    """The bytes that are hashed when a trainer writes an observation as plain JSON: as column and as text."""
    value = plain(observation)
    forms = [dumps(value).encode()]
    try:
        column = np.array(value)
    except ValueError:  # not rectangular
        return forms
    wide = {"b": "|b1", "i": "<i8", "u": "<i8", "f": "<f8"}.get(column.dtype.kind)
    return [column.astype(wide).tobytes(), *forms] if wide else forms


def _same(one: Any, other: Any) -> bool:
    """Equal as values; NaN equals itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)
