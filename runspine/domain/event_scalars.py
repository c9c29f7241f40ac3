"""Reads the scalars of TensorBoard's event files. Pure: bytes in, scalars out.

A record is a length (8 bytes), its checksum (4), an `Event` and its checksum (4). Of the event only step,
time and scalars are read, from its wire format: the worker does not need TensorBoard for that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

HEAD, FOOT = 12, 4
# A larger one is no event of a writer, or the file is damaged.
MAX_RECORD_BYTES = 64 << 20
# As of any name of the protocol.
MAX_TAG_LENGTH = 4096
# Times beyond the year 5000 are none.
MAX_SECONDS = 1e11
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Fields of Event, Summary.Value and TensorProto.
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 2, 8, 9
_DTYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
# DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64, DT_HALF.
_FORMATS = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}


class EventScalar(NamedTuple):
    """One point of a series."""

    tag: str
    step: int
    value: float
    # Microseconds since 1970; 0 when the file states no time.
    at: int


class EventFileError(ValueError):
    """The bytes are not those of an event file."""


class EventFileReader:
    """Takes chunks of one file and returns the scalars of whole records."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[EventScalar]:
        """Scalars of the records that the chunk completes. Raises EventFileError."""
        data, at, found = self._rest + chunk, 0, list[EventScalar]()
        while len(data) - at >= HEAD:
            (size,) = struct.unpack_from("<Q", data, at)
            if size > MAX_RECORD_BYTES:
                raise EventFileError(f"a record of {size:,} bytes")
            if len(data) - at < HEAD + size + FOOT:
                break
            try:
                found += _scalars(data[at + HEAD : at + HEAD + size])
            except struct.error as error:
                raise EventFileError(f"a number of another size: {error}") from error
            at += HEAD + size + FOOT
        self._rest = data[at:]
        return found


def _scalars(event: bytes) -> Iterator[EventScalar]:
    """Scalars of one Event."""
    wall, step, summaries = 0.0, 0, list[bytes]()
    for number, value in _fields(event):
        if number == _WALL_TIME and isinstance(value, bytes):
            (wall,) = struct.unpack("<d", value)
        elif number == _STEP and isinstance(value, int):
            # A negative int64 is written as its two's complement.
            step = value - (1 << 64) if value >> 63 else value
        elif number == _SUMMARY and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == 1 and isinstance(value, bytes) and (point := _value(value)):
                at = int(wall * 1e6) if 0 <= wall < MAX_SECONDS else 0
                yield EventScalar(point[0], max(0, step), point[1], at)


def _value(data: bytes) -> tuple[str, float] | None:
    """Tag and number of one Summary.Value; None when it is no scalar."""
    tag, number, scalar_plugin, tensor = "", None, False, b""
    for field, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if field == _TAG:
            tag = value.decode("utf-8", "replace")
        elif field == _SIMPLE_VALUE:
            number = struct.unpack("<f", value)[0]
        elif field == _TENSOR:
            tensor = value
        elif field == _METADATA:
            scalar_plugin = b"scalars" in value
    if number is None and scalar_plugin and tensor:
        number = _tensor(tensor)
    return (tag[:MAX_TAG_LENGTH], number) if tag and number is not None else None


def _tensor(data: bytes) -> float | None:
    """The element of a tensor of one element."""
    kind, content, packed = 0, b"", dict[int, bytes | int]()
    for number, value in _fields(data):
        if number == _DTYPE and isinstance(value, int):
            kind = value
        elif number == _CONTENT and isinstance(value, bytes):
            content = value
        elif number in (_FLOATS, _DOUBLES):
            packed[number] = value
    form = _FORMATS.get(kind)
    if form and len(content) == struct.calcsize(form):
        return float(struct.unpack(form, content)[0])
    for number, form in ((_FLOATS, "<f"), (_DOUBLES, "<d")):
        single = packed.get(number)
        if isinstance(single, bytes) and len(single) == struct.calcsize(form):
            return float(struct.unpack(form, single)[0])
    return None


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Fields of a message by number: varints as integers, everything else as bytes. Raises EventFileError."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise EventFileError(f"wire type {kind}")
        if at + size > len(data):
            raise EventFileError("a field beyond the end of its message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise EventFileError("a number without end")
