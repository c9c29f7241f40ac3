"""Writes a TensorBoard event file of any length in seconds, by columns.

A record is a length, its checksum, an event, and its checksum. All events have the same number of bytes,
because a varint may be padded, so that a checksum is one table look-up per column.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
START = 1_794_800_000.0
CHUNK = 1_000_000
STEP_BYTES = 5
POLYNOMIAL = 0x82F63B78


def _table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


TABLE = _table()


def masked_crc(rows: Array) -> Array:
    """Masked CRC-32C of each row of bytes, as in TFRecord."""
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = TABLE[(crc ^ column) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    crc = ~crc
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def _varints(numbers: Array) -> Array:
    """Varints of five bytes each, with the continuation bit in the first four."""
    shifts = np.arange(STEP_BYTES, dtype=np.uint64) * np.uint64(7)
    parts = ((numbers.astype(np.uint64)[:, None] >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    parts[:, :-1] |= 0x80
    return parts


def _bytes_of(column: Array, kind: str) -> Array:
    return np.ascontiguousarray(column.astype(kind)).view(np.uint8).reshape(len(column), -1)


def _constant(data: bytes, count: int) -> Array:
    return np.broadcast_to(np.frombuffer(data, np.uint8), (count, len(data)))


def _framed(events: Array) -> bytes:
    length = struct.pack("<Q", events.shape[1])
    head = length + masked_crc(np.frombuffer(length, np.uint8)[None])[0].tobytes()
    foot = _bytes_of(masked_crc(events), "<u4")
    return np.hstack([_constant(head, len(events)), events, foot]).tobytes()


def _scalars(tag: bytes, first: int, values: Array) -> Array:
    """Event{wall_time, step, summary{value{tag, simple_value}}} for each value."""
    count = len(values)
    inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15"
    value_size = len(inner) + 4
    summary = b"\x2a" + bytes([value_size + 2]) + b"\x0a" + bytes([value_size]) + inner
    numbers = np.arange(first, first + count)
    return np.hstack(
        [
            _constant(b"\x09", count), _bytes_of(START + numbers * 5e-5, "<f8"),
            _constant(b"\x10", count), _varints(numbers),
            _constant(summary, count), _bytes_of(values, "<f4"),
        ]
    )  # fmt: skip


def write_events(folder: Path, tag: str, values_of: Any, total: int) -> Path:
    """Write an event file; `values_of(first, count)` returns the values."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"events.out.tfevents.{START:.0f}.bench"
    version = b"\x09" + struct.pack("<d", START) + b"\x1a\x0dbrain.Event:2"
    with file.open("wb") as out:
        out.write(_framed(np.frombuffer(version, np.uint8)[None]))
        for first in range(0, total, CHUNK):
            values = values_of(first, min(CHUNK, total - first))
            out.write(_framed(_scalars(tag.encode(), first, values)))
    return file
