"""Observations of the whole slots of a batch: kept, hashed or left out, as the run's capture asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from runspine.frames import MAX_ROW_BYTES, MAX_STEP_BYTES
from runspine.sdk.batch.autoreset import FINAL
from runspine.sdk.batch.rows import Array, GridRows, leaf, numbers, on_host, rows_for
from runspine.sdk.columns import WHOLE_BYTES
from runspine.sdk.encoding import HASH_BYTES, NUMERIC, digest

TOO_LARGE = "observations of this vector env do not fit into a frame: hashes are kept instead"


class ObservationRows:
    """Rows of observations. Structures of several arrays are hashed."""

    def __init__(self, whole: int, capture: str, note: Callable[[str], None]) -> None:
        self._whole, self._capture, self._note = whole, capture, note
        self._rows: GridRows | None = None
        self._hashes: Array | None = None
        # Last observations of envs that were reset in the same step, by row and slot.
        self._finals: list[tuple[int, int, Any]] = []

    def learn(self, observations: Any, rows: int) -> int:
        """Prepare for observations like these; return the bytes of a row."""
        self._rows = self._hashes = None
        if self._capture == "none":
            return 0
        value = leaf(observations)
        if hasattr(value, "shape"):
            part = on_host(value[: self._whole])
            width = part.nbytes // max(1, len(part))
            small = self._capture == "full" or (self._capture != "hash" and width <= WHOLE_BYTES)
            if small and not fits(width, part.nbytes):
                self._note(TOO_LARGE)
            elif part.dtype.kind in NUMERIC and small:
                self._rows = rows_for(value[: self._whole], rows)
                return int(part.nbytes)
        self._hashes = np.zeros((rows, self._whole, HASH_BYTES), np.uint8)
        return self._whole * HASH_BYTES

    def put(self, row: int, observations: Any, infos: Any) -> None:
        if self._rows is not None:
            seen = leaf(observations)
            self._rows.put(row, seen if len(seen) == self._whole else seen[: self._whole])
        elif self._hashes is not None:
            self._hashes[row] = [_digest(each) for each in env_rows(observations, self._whole)]
        found = next((infos[name] for name in FINAL if name in infos), None) if infos else None
        if found is not None and (self._rows is not None or self._hashes is not None):
            self._finals += [(row, slot, each) for slot, each in _finals(found, self._whole)]

    def block(self, rows: int, ended: Array | None) -> dict[str, Array]:
        """Columns by name; with `ended`, the observations after a reset in the same step as well."""
        finals, self._finals = self._finals, []
        if self._rows is not None:
            name, block = "obs", numbers(self._rows.block(rows))
        elif self._hashes is not None:
            name, block = "obs_hash", self._hashes[:rows].copy()
        else:
            return {}
        if ended is None:
            return {name: block}
        first = "reset_obs" if name == "obs" else "reset_hash"
        resets = block[ended]
        for row, slot, final in finals:
            if row < rows and ended[row, slot]:
                block[row, slot] = final if name == "obs" else _digest(final)
        return {name: block, first: resets} if len(resets) else {name: block}


def fits(width: int, step: int) -> bool:
    """Whether observations of this size, each and of all envs, can be kept whole."""
    return width <= MAX_ROW_BYTES and step <= MAX_STEP_BYTES


def captured(observations: Array | None, capture: str) -> dict[str, Array]:
    """Observations [steps, envs, …] as the capture keeps them."""
    if observations is None or capture == "none":
        return {}
    steps, envs = observations.shape[:2]
    width = observations.nbytes // max(1, steps * envs)
    small = capture == "full" or (capture != "hash" and width <= WHOLE_BYTES)
    if small and fits(width, width * envs):
        return {"obs": observations}
    hashed = [_digest(observations[step, env]) for step in range(steps) for env in range(envs)]
    return {"obs_hash": np.array(hashed, np.uint8).reshape(steps, envs, HASH_BYTES)}


def env_rows(observations: Any, count: int) -> list[Any]:
    """The observation of each env, of a structure of arrays."""
    if isinstance(observations, dict):
        columns = {name: env_rows(value, count) for name, value in observations.items()}
        return [{name: column[at] for name, column in columns.items()} for at in range(count)]
    if isinstance(observations, tuple) and observations and hasattr(observations[0], "shape"):
        parts = [env_rows(value, count) for value in observations]
        return [tuple(part[at] for part in parts) for at in range(count)]
    return (
        list(on_host(observations)[:count]) if hasattr(observations, "shape") else list(observations[:count])
    )


def _digest(value: Any) -> Array:
    return np.frombuffer(digest(value), np.uint8)


def _finals(found: Any, count: int) -> list[tuple[int, Any]]:
    rows = env_rows(found, count) if isinstance(found, dict) else list(found[:count])
    return [(slot, leaf(row)) for slot, row in enumerate(rows) if row is not None]
