"""How many rows of history an offline run's file holds: wandb writes it in a process of its own."""

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
    """The rows there are, once they are as many as expected or time is up."""
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
    """A record is whole in a block, or in pieces over several."""
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
