"""Columns that grow by one value a step, and how they are packed for the protocol.

A column takes its type from its first value. `keep` refuses a value of another type with
ColumnTypeChangedError: the rows so far are then written, and a new column begins.
"""

from __future__ import annotations

import copy
import hashlib
import sys
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from runspine.sdk.encoding import HASH_BYTES, NUMERIC, Packed, digest, little, raw_bytes

# Observations up to this size are kept whole unless the run sets its capture, larger ones as a hash.
WHOLE_BYTES = 256
# Immutable numbers.
SCALARS: frozenset[type] = frozenset([int, float, bool, *(np.dtype(code).type for code in "?bhilqBHILQefd")])

# numpy scalars whose bytes have the order of the wire.
DTYPES = {np.dtype(code).type: np.dtype(code).str for code in "?bhilqBHILQefd" if sys.byteorder == "little"}

Taken = Packed | list[Any] | bytes | None


class ColumnTypeChangedError(Exception):
    """The value has another type or shape than those before it."""


class Column:
    """Values of one type. `rows` is only changed in place, so that `keep` may hold a reference to it."""

    # Append a value; raises ColumnTypeChangedError.
    keep: Callable[[Any], None]
    # Bytes of a row, to limit the rows of a line.
    width = 8
    # To save the call of `keep`, values of these types, or the bytes of arrays of this dtype and width,
    # may be appended to `rows` directly.
    scalars: frozenset[type] = frozenset()
    dtype: np.dtype[Any] | None = None

    def __init__(self) -> None:
        self.rows: list[Any] = []
        # The last row that was taken.
        self.newest: Any = None

    def fits(self, value: Any) -> bool:
        return True

    def row_of(self, value: Any) -> Any:
        """Convert a value to a row."""
        raise NotImplementedError

    def pack(self, rows: list[Any]) -> Taken:
        raise NotImplementedError

    def digest_of(self, row: Any) -> bytes:
        return digest(row)

    def take(self, count: int) -> list[Any]:
        """Remove and return the oldest rows."""
        taken = self.rows[:count]
        del self.rows[:count]
        self.newest = taken[-1]
        return taken

    def newest_digest(self, count: int) -> bytes:
        """Hash of the newest of the first `count` rows, or of the row before them."""
        return self.digest_of(self.rows[count - 1] if count else self.newest)


class NumberColumn(Column):
    """Python or numpy scalars."""

    scalars = SCALARS

    def __init__(self) -> None:
        super().__init__()
        append, scalars = self.rows.append, SCALARS

        def keep(value: Any) -> None:
            if type(value) in scalars:
                append(value)
            else:
                raise ColumnTypeChangedError

        self.keep = keep

    def fits(self, value: Any) -> bool:
        return type(value) in SCALARS

    def row_of(self, value: Any) -> Any:
        return value

    def pack(self, rows: list[Any]) -> Packed | list[Any]:
        kinds = set(map(type, rows))
        if kinds == {float}:
            return Packed("<f8", (), array("d", rows).tobytes(), "float")
        if kinds == {int}:
            try:
                return Packed("<i8", (), array("q", rows).tobytes(), "int")
            except OverflowError:
                return rows
        if len(kinds) == 1 and (dtype := DTYPES.get(next(iter(kinds)))):
            # numpy scalars have a buffer; making an array of them takes longer.
            return Packed(dtype, (), b"".join(rows))
        column = little(np.array(rows))
        if column.dtype.kind not in NUMERIC:
            return rows
        return Packed(column.dtype.str, (), column.tobytes(), "bool" if kinds == {bool} else "")


class ArrayColumn(Column):
    """Arrays of one dtype and shape, copied at once: the env may change them afterwards."""

    def __init__(self, like: np.ndarray[Any, Any]) -> None:
        super().__init__()
        append, dtype, width = self.rows.append, like.dtype, like.nbytes
        self.dtype, self._shape, self.width = dtype, like.shape, width

        def keep(value: Any) -> None:
            try:
                row = value.tobytes()
                # numpy has one object for each of its dtypes, so that `is` nearly always decides.
                same = (value.dtype is dtype or value.dtype == dtype) and len(row) == width
            except AttributeError:
                same = False
            if not same:
                raise ColumnTypeChangedError
            append(row)

        self.keep = keep

    def fits(self, value: Any) -> bool:
        return type(value) is np.ndarray and value.dtype == self.dtype and value.shape == self._shape

    def row_of(self, value: Any) -> bytes:
        return bytes(value.tobytes())

    def pack(self, rows: list[Any]) -> Packed:
        assert self.dtype is not None
        return Packed(self.dtype.str, self._shape, b"".join(rows))


class ConvertedColumn(ArrayColumn):
    """Arrays of other libraries (torch, jax), converted by numpy."""

    def __init__(self, like: np.ndarray[Any, Any]) -> None:
        super().__init__(like)
        keep_array = self.keep
        self.keep = lambda value: keep_array(little(np.asarray(value)))

    def fits(self, value: Any) -> bool:
        return super().fits(little(np.asarray(value)))

    def row_of(self, value: Any) -> bytes:
        return super().row_of(little(np.asarray(value)))


class PlainColumn(Column):
    """Structured values, deep-copied; JSON on the wire."""

    width = WHOLE_BYTES

    def __init__(self) -> None:
        super().__init__()
        append = self.rows.append

        def keep(value: Any) -> None:
            if not self.fits(value):
                raise ColumnTypeChangedError
            append(copy.deepcopy(value))

        self.keep = keep

    def fits(self, value: Any) -> bool:
        return type(value) not in SCALARS and not isinstance(value, np.ndarray)

    def row_of(self, value: Any) -> Any:
        return copy.deepcopy(value)

    def pack(self, rows: list[Any]) -> list[Any]:
        return rows


class HashColumn(Column):
    """A hash of eight bytes for each value."""

    width = HASH_BYTES

    def __init__(self) -> None:
        super().__init__()
        append, blake2b = self.rows.append, hashlib.blake2b

        def keep(value: Any) -> None:
            if type(value) is np.ndarray and value.flags.c_contiguous and value.dtype.isnative:
                append(blake2b(value.data).digest()[:HASH_BYTES])
            else:
                append(digest(value))

        self.keep = keep

    def row_of(self, value: Any) -> bytes:
        return digest(value)

    def pack(self, rows: list[Any]) -> bytes:
        return b"".join(rows)

    def digest_of(self, row: Any) -> bytes:
        return bytes(row)


class NewestOnly(Column):
    """Keeps only the newest value, for the hash in a snapshot."""

    width = 0

    def __init__(self) -> None:
        super().__init__()

        def keep(value: Any) -> None:
            self.newest = value.tobytes() if type(value) is np.ndarray else raw_bytes(value)

        self.keep = keep

    def row_of(self, value: Any) -> bytes:
        return raw_bytes(value)

    def take(self, count: int) -> list[Any]:
        return []

    def pack(self, rows: list[Any]) -> None:
        return None

    def newest_digest(self, count: int) -> bytes:
        return digest(self.newest)


def column_for(value: Any) -> Column:
    """Return a column that keeps values of this type whole."""
    if type(value) in SCALARS:
        return NumberColumn()
    if value is None or isinstance(value, dict | tuple | list | str):
        return PlainColumn()
    as_array = little(np.asarray(value))
    if as_array.dtype.kind not in NUMERIC:
        return PlainColumn()
    if type(value) is np.ndarray and value.dtype.byteorder != ">":
        return ArrayColumn(value)
    return ConvertedColumn(as_array)


def observation_column(value: Any, capture: str) -> Column:
    """Return a column by the capture of the run: `full`, `hash`, `none`, or empty for whole when small."""
    if capture == "none":
        return NewestOnly()
    whole = capture == "full" or (capture != "hash" and len(raw_bytes(value)) <= WHOLE_BYTES)
    return column_for(value) if whole else HashColumn()
