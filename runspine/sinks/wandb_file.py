"""Counts history rows in the file of an offline W&B run, which wandb writes in another process."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# LevelDB's log format, after a header of wandb's own.
HEADER, BLOCK = 7, 32_768
WHOLE, LAST = 1, 4


def wait_for_rows(path: Path, rows: int, seconds: float = 20.0) -> int:
    """Wait until the file has the expected number of rows, and return the number found."""
    deadline = time.monotonic() + seconds
    while (found := rows_in(path)) < rows and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def rows_in(path: Path) -> int:
    from wandb.proto import wandb_internal_pb2

    wire: Any = wandb_internal_pb2
    records = (wire.Record.FromString(data) for data in _records(path.read_bytes()))
    return sum(record.WhichOneof("record_type") == "history" for record in records)


def _records(data: bytes) -> Iterator[bytes]:
    """Yield records, which may span several blocks."""
    at, pieces = HEADER, b""
    while at + 7 <= len(data):
        room = BLOCK - at % BLOCK
        if room < 7:
            at += room
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        if at + 7 + size > len(data):
            return  # still being written
        pieces += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (WHOLE, LAST):
            yield pieces
            pieces = b""
