"""Conversion of wire arrays to Arrow columns and back, bit for bit. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runspine.wire.v1.telemetry_pb2 import Array

# Types that Parquet stores exactly. Booleans are kept as bytes: other writers' may be more than 0 and 1.
ARROW_TYPES: dict[str, pa.DataType] = {
    "<f4": pa.float32(),
    "<f8": pa.float64(),
    "|i1": pa.int8(),
    "<i2": pa.int16(),
    "<i4": pa.int32(),
    "<i8": pa.int64(),
    "|u1": pa.uint8(),
    "<u2": pa.uint16(),
    "<u4": pa.uint32(),
    "<u8": pa.uint64(),
    "|b1": pa.uint8(),
    # As bits: not every reader of Parquet supports half floats.
    "<f2": pa.uint16(),
}
FLOATS = ("<f4", "<f8")
MAX_ROW_VALUES = 1 << 20


class Form(NamedTuple):
    """Dtype and shape of a column's rows."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        return self.width * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def form_of(array: Array, count: int) -> Form | None:
    """The form of an array that can be a column, else None."""
    known = _known_form(array.dtype, tuple(array.shape))
    if known is None:
        return None
    form, row_bytes = known
    return form if len(array.data) == count * row_bytes else None


@functools.lru_cache(maxsize=1024)
def _known_form(dtype: str, shape: tuple[int, ...]) -> tuple[Form, int] | None:
    """A form and the bytes of its rows. Kept, because thousands of blocks of a commit have the same."""
    form = Form(dtype, shape)
    if dtype not in ARROW_TYPES or not 0 < form.width <= MAX_ROW_VALUES:
        return None
    return form, form.row_bytes


def to_column(form: Form, parts: Sequence[bytes]) -> tuple[pa.Field, pa.Array]:
    """One column from the data of many blocks, without a name."""
    kind = ARROW_TYPES[form.dtype]
    values = pa.Array.from_buffers(
        kind, sum(map(len, parts)) // (kind.bit_width // 8), [None, pa.py_buffer(b"".join(parts))]
    )
    column = values if not form.shape else pa.FixedSizeListArray.from_arrays(values, type=_list_type(form))
    note = {"dtype": form.dtype, "shape": ",".join(map(str, form.shape))}
    return pa.field("", column.type, nullable=False, metadata=note), column


def _list_type(form: Form) -> pa.DataType:
    return pa.list_(pa.field("element", ARROW_TYPES[form.dtype], nullable=False), form.width)


class Rows:
    """A column with its exact bytes, to cut blocks from."""

    def __init__(self, field: pa.Field, column: pa.ChunkedArray) -> None:
        note = field.metadata or {}
        shape = note[b"shape"].decode()
        self.form = Form(note[b"dtype"].decode(), tuple(map(int, shape.split(","))) if shape else ())
        values = joined(column)
        if self.form.shape:
            values = values.flatten()
        self.values = values.to_numpy(zero_copy_only=False)

    def cut(self, start: int, end: int) -> Array:
        width = self.form.width
        data = self.values[start * width : end * width].tobytes()
        return Array(dtype=self.form.dtype, shape=self.form.shape, data=data)

    def numbers(self) -> np.ndarray[Any, Any]:
        """One number for each row: the value, or the sum of the row."""
        values = self.values
        if self.form.dtype == "<f2":
            values = values.view("<f2")
        values = values.astype(np.float64)
        summed: np.ndarray[Any, Any] = values.reshape(-1, self.form.width).sum(axis=1)
        return summed if self.form.shape else values


def joined(column: pa.ChunkedArray) -> Any:
    """A column's chunks as one array."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined


def numpy(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = table.column(name).to_numpy()
    return values


def coded(texts: Sequence[str], counts: np.ndarray[Any, Any] | None = None) -> pa.DictionaryArray:
    """Texts as a dictionary column, each repeated `counts` times."""
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int32, len(texts))
    if counts is not None:
        codes = np.repeat(codes, counts)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(numbers), pa.string()))
