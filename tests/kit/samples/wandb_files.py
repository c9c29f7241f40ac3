"""What an offline run of W&B holds: the rows of its history, and the files that they refer to."""

from __future__ import annotations

import glob
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_wandb(out: Path) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for row in wandb_rows(out):
        step = row.pop("global_step")
        for name, value in row.items():
            media, _, field = name.rpartition("/")
            if media.startswith("media/videos/"):
                if field == "path":
                    found.append((media, step, media_digest(out, value)))
            elif not name.startswith("_"):
                found.append((name, step, float(value)))
    return sorted(found)


def media_digest(out: Path, path_in_run: str) -> str:
    """Digest of the file that a row refers to, from the file itself."""
    [path] = (out / "wandb").glob(f"offline-run-*/files/{path_in_run}")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wandb_rows(out: Path) -> list[dict[str, Any]]:
    """The history of the only offline run below a folder."""
    from wandb.proto import wandb_internal_pb2 as records

    [path] = glob.glob(str(out / "wandb" / "offline-run-*" / "*.wandb"))
    rows = []
    for data in _wandb_records(Path(path).read_bytes()):
        record = records.Record.FromString(data)  # type: ignore[attr-defined]
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append(
                {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
            )
    return rows


def _wandb_records(data: bytes) -> Iterator[bytes]:
    """LevelDB's log format: blocks of 32 KiB, records in up to four pieces, after a header of 7 bytes."""
    at, part = 7, b""
    while at + 7 <= len(data):
        left = 32_768 - at % 32_768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield part
            part = b""
