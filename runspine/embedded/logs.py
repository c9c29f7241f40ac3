"""One log file per part, rotated when the part starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

ROTATE_AT = 10 << 20
KEEP = 3
LONGEST = 300


def open_log(path: Path) -> int:
    """A descriptor to append to; a large file is first set aside as .1, .2, .3."""
    if path.exists() and path.stat().st_size > ROTATE_AT:
        _rotate(path)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _rotate(path: Path) -> None:
    for number in range(KEEP - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    path.replace(path.with_name(f"{path.name}.1"))


def last_words(path: Path, count: int = 5) -> str:
    """The end of a log, for an error message: short, and of an exception only what it says."""
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
        return line[:LONGEST]
    if not isinstance(entry, dict):
        return line[:LONGEST]
    said = str(entry.get("exception", "")).strip().rpartition("\n")[2]
    return ": ".join(filter(None, [str(entry.get("event", "")), str(entry.get("error", "")), said]))[:LONGEST]
