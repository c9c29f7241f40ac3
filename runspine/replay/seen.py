"""Observations as they were recorded: whole, as hashes, as JSON, or not at all. Pure."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from runspine.sdk.text import HASH_BYTES, NUMERIC, digest, dumps, little, plain
from runspine.wire.v1.telemetry_pb2 import Array, Reset, StepBlock

# What a worker makes of plain JSON; any observation that fits in is compared by value.
WIDEST = ("|b1", "<i8", "<f8")


class Nothing:
    """No observations were kept: anything matches."""

    kind = "none"

    def matches(self, row: int, observation: Any) -> bool:
        return True

    def value(self, row: int) -> Any:
        """What was recorded, where more is known than its hash."""
        return None

    def told(self, row: int) -> Any:
        """For a person: the value, or what stands for it."""
        return None

    def also(self, observation: Any) -> Any:
        """An observation in the terms of `told`."""
        return plain(observation)


class Whole(Nothing):
    """Rows of one type and shape."""

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

    def told(self, row: int) -> Any:
        return plain(self.value(row))


class Hashed(Nothing):
    """Eight bytes of each."""

    kind = "hash"

    def __init__(self, hashes: bytes) -> None:
        self._hashes = hashes

    def matches(self, row: int, observation: Any) -> bool:
        expected = self._hashes[row * HASH_BYTES : (row + 1) * HASH_BYTES]
        return digest(observation) == expected or any(
            digest(form) == expected for form in _worker_forms(observation)
        )

    def told(self, row: int) -> Any:
        return f"hash {self._hashes[row * HASH_BYTES : (row + 1) * HASH_BYTES].hex()}"

    def also(self, observation: Any) -> Any:
        return f"hash {digest(observation).hex()}"


class Texts(Nothing):
    """JSON of each."""

    kind = "json"

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def matches(self, row: int, observation: Any) -> bool:
        said = dumps(observation)
        # A text for text that is not equal may still be the same value: keys in another order.
        return said == self._texts[row] or _same(json.loads(said), self.value(row))

    def value(self, row: int) -> Any:
        return json.loads(self._texts[row])

    def told(self, row: int) -> Any:
        return self.value(row)


def seen_in(said: StepBlock | Reset) -> Nothing:
    """What a block of steps, or a reset, holds of its observations."""
    if said.HasField("observation"):
        return Whole(said.observation)
    if said.observation_json:
        one = said.observation_json
        return Texts([one] if isinstance(one, str) else list(one))
    return Hashed(said.observation_hash) if said.observation_hash else Nothing()


def _worker_forms(observation: Any) -> list[bytes]:
    """What is hashed of an observation that a trainer wrote as plain JSON: its text, or as a column."""
    said = plain(observation)
    forms = [dumps(said).encode()]
    try:
        column = np.array(said)
    except ValueError:  # of no one shape
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
