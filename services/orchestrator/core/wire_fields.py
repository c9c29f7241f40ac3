"""Fields of a message in protobuf's wire form, one by one. Pure.

A board of a million facts is written and read run by run: one message of all would be copied as a whole, and
keeps its memory as long as anything refers to a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator

LENGTH_DELIMITED = 2


def field(number: int, data: bytes) -> bytes:
    """One length-delimited field."""
    head = bytearray([number << 3 | LENGTH_DELIMITED])
    size = len(data)
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message that has no others. Raises ValueError."""
    at, end = 0, len(message)
    while at < end:
        tag = message[at]
        if tag & 7 != LENGTH_DELIMITED or tag > 0x7F:
            raise ValueError(f"field {tag >> 3} at byte {at} is not length-delimited")
        at, size = _varint(message, at + 1)
        if at + size > end:
            raise ValueError(f"field {tag >> 3} at byte {at} is cut off")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, value
        shift += 7
