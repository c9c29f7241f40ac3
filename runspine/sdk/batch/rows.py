"""Columns of [steps, envs] arrays, from numpy, torch, jax or lists."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from runspine.sdk.encoding import NUMERIC, little

Array = np.ndarray[Any, Any]


class RowsChangedError(Exception):
    """The value has another type or shape than those before it."""


class GridRows(Protocol):
    """Rows of one type, each an array of envs."""

    def put(self, row: int, value: Any) -> None:
        """Keep a copy of the value. Raises RowsChangedError."""

    def block(self, rows: int) -> Array:
        """The first rows as one array, which is no longer changed."""


class CopiedRows:
    """Arrays in the memory of the host, copied into one block."""

    def __init__(self, like: Array, rows: int, dtype: Any = None) -> None:
        self._dtype, self._shape, self._rows = like.dtype, like.shape, rows
        self._kept = np.dtype(dtype or like.dtype)
        self._block = np.empty((rows, *like.shape), self._kept)

    def put(self, row: int, value: Any) -> None:
        array = value if type(value) is np.ndarray else on_host(value)
        # numpy has one object for each of its dtypes, so that `is` nearly always decides.
        if array.shape != self._shape or (array.dtype is not self._dtype and array.dtype != self._dtype):
            raise RowsChangedError
        self._block[row] = array

    def block(self, rows: int) -> Array:
        block = self._block[:rows]
        self._block = np.empty((self._rows, *self._shape), self._kept)
        return block


class LaterRows:
    """Arrays of a device, fetched together when they are written: a step never waits for the device."""

    def __init__(self, keep: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
        self._keep, self._shape = keep, shape
        self._values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        if tuple(value.shape) != self._shape:
            raise RowsChangedError
        del self._values[row:]
        self._values.append(self._keep(value))

    def block(self, rows: int) -> Array:
        values, self._values = self._values[:rows], []
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(values[0], torch.Tensor):
            fetched: Array = torch.stack(values).cpu().numpy()
            return fetched
        return np.stack([np.asarray(value) for value in values])


def rows_for(value: Any, rows: int, dtype: Any = None) -> GridRows:
    """Rows for values like this one; `dtype` for those that are kept as another type."""
    if is_device_tensor(value):
        return LaterRows(lambda tensor: tensor.detach().clone(), tuple(value.shape))
    if type(value).__module__.startswith(("jax", "jaxlib")):
        # Immutable: a reference is a copy.
        return LaterRows(lambda array: array, tuple(value.shape))
    return CopiedRows(on_host(value), rows, dtype)


def copied(value: Any) -> Any:
    """A copy of the value, on its device."""
    if type(value) is np.ndarray:
        return value.copy()
    if is_device_tensor(value):
        return value.detach().clone()
    return value if type(value).__module__.startswith("jax") else np.array(on_host(value))


def is_device_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def on_host(value: Any) -> Array:
    """The value as a numpy array, without a copy where possible."""
    if hasattr(value, "detach"):
        array: Array = value.detach().cpu().numpy()
        return array
    return np.asarray(value)


def numbers(block: Array) -> Array:
    """Little-endian numbers in C order. Raises TypeError for anything else."""
    if block.dtype.kind not in NUMERIC:
        raise TypeError(f"values of type {block.dtype} are not numbers")
    return little(block)


def leaf(value: Any) -> Any:
    """The array in a dict or tuple of one; the value itself otherwise."""
    while type(value) is not np.ndarray and isinstance(value, dict | tuple) and len(value) == 1:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value
