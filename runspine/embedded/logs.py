"""Log files of the parts, rotated when a part starts and while it runs, and the log of the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from runspine.embedded.log_rotation import RENAMING, rotate_in_place, shift_files
from runspine.embedded.part import PartEvent

ROTATE_BYTES = 10 << 20
KEPT_FILES = 3
CHECK_SECONDS = 10.0
MAX_LINE = 300


def open_log(path: Path) -> int:
    """A descriptor to append to; a large file is first renamed to .1, .2, .3."""
    if path.exists() and path.stat().st_size > ROTATE_BYTES:
        _rotate(path)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _rotate(path: Path) -> None:
    with RENAMING:
        shift_files(path, KEPT_FILES)
        path.replace(path.with_name(f"{path.name}.1"))


async def keep_rotating(folder: Path, seconds: float = CHECK_SECONDS) -> None:
    """Rotate the large logs of a folder at intervals, until cancelled. Their writers continue."""
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(rotate_logs, folder)


def rotate_logs(folder: Path) -> None:
    """Rotate the large logs of a folder. Blocks."""
    for path in sorted(folder.glob("*.log")):
        # A full disk, or a file system that cannot take bytes out: rotated when its part starts again.
        with contextlib.suppress(OSError):
            rotate_in_place(path, ROTATE_BYTES, KEPT_FILES)


def log_tail(path: Path, count: int = 5) -> str:
    """The last lines of a log for an error message, with only the last line of an exception."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 32_768))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(f"  {_short(line)}" for line in lines[-count:])


def _short(line: str) -> str:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return line[:MAX_LINE]
    if not isinstance(entry, dict):
        return line[:MAX_LINE]
    exception = str(entry.get("exception", "")).strip().rpartition("\n")[2]
    return ": ".join(filter(None, [str(entry.get("event", "")), str(entry.get("error", "")), exception]))[
        :MAX_LINE
    ]


class SupervisorLog:
    """Writes events of parts to a file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_log(path)

    def write(self, event: PartEvent) -> None:
        line = {
            "timestamp": datetime.now(UTC).isoformat(),
            "event": f"part.{event.what}",
            "part": event.part,
            **({"detail": event.detail} if event.detail else {}),
        }
        try:
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        except OSError:
            # The disk is full: the line is lost, and supervision continues.
            return

    def close(self) -> None:
        os.close(self._descriptor)
