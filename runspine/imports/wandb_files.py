"""W&B: the `run-ID.wandb` files of offline runs, and of online ones that are still on disk.

A file is a log of protobuf records in LevelDB's format. The messages are those of the package wandb.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from runspine.imports.source import Point, SourceError, SourceRun, flat_numbers, whole_step

TOOL = "wandb"
# The file's own header; blocks; the header of a piece: checksum, size, kind.
START, BLOCK, HEAD = 7, 32_768, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
# Of a row, by the library: when it was logged, and its step.
TIME, STEP = "_timestamp", "_step"


def find(path: Path) -> list[SourceRun]:
    files = [path] if path.is_file() else sorted(path.rglob("run-*.wandb"))
    found = (_run(file) for file in files if file.suffix == ".wandb" and not file.is_symlink())
    return [run for run in found if run is not None]


def _run(path: Path) -> SourceRun | None:
    """The run of a file; None when it has no record of one."""
    for message in messages(path):
        if message.WhichOneof("record_type") == "run":
            run = message.run
            config = {"/".join(item.nested_key) or item.key: _value(item) for item in run.config.update}
            kept = {key: value for key, value in config.items() if key != "_wandb"}
            name = run.display_name or run.run_id
            return SourceRun(TOOL, name, str(path), partial(read_points, path), kept, run.project)
    return None


def read_points(path: Path) -> Iterator[Point]:
    for message in messages(path):
        if message.WhichOneof("record_type") != "history":
            continue
        items = message.history.item
        row = {"/".join(item.nested_key) or item.key: _value(item) for item in items}
        step = whole_step(row.get(STEP, message.history.step.num))
        at = float(row.get(TIME, 0.0))
        for name, value in flat_numbers(row):
            if not name.startswith("_"):
                yield Point(name, step, value, at)


def messages(path: Path) -> Iterator[Any]:
    """The records of a file. Raises SourceError."""
    try:
        from wandb.proto import wandb_internal_pb2 as wire
    except ImportError as error:
        raise SourceError("runs of W&B are read with its own package: pip install wandb") from error
    record: Any = wire.Record  # type: ignore[attr-defined]
    for data in records(path.read_bytes(), str(path)):
        yield record.FromString(data)


def records(data: bytes, where: str) -> Iterator[bytes]:
    """Whole records; what a killed writer left unfinished at the end is left out. Raises SourceError."""
    at, parts = START, b""
    while at + HEAD <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEAD:
            at += left
            continue
        checksum, size, kind = struct.unpack_from("<IHB", data, at)
        piece = data[at + HEAD : at + HEAD + size]
        if len(piece) < size or not kind:
            return
        if checksum != zlib.crc32(data[at + HEAD - 1 : at + HEAD + size]):
            raise SourceError(f"{where}: the record at byte {at:,} is damaged")
        parts += piece
        at += HEAD + size
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def _value(item: Any) -> Any:
    try:
        return json.loads(item.value_json)
    except ValueError:
        return None
