"""Reads what wandb leaves in a run's directory: names of its folders, and `latest-run.json`.

A trainer writes there what it likes: links are not followed, and little is read.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
from pathlib import Path
from typing import Any

from runspine.domain.tracking import merged, read_fields, read_folder
from runspine.wire.v1.facts_pb2 import Tracking

FOLDER, LATEST = "wandb", "latest-run.json"
MAX_ENTRIES = 1000
MAX_JSON_BYTES = 64 << 10


def find_tracking(run_dir: Path) -> Tracking | None:
    """The newest W&B run of a trainer; None when it left nothing. Blocks."""
    folder = run_dir / FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return None
    found = [run for name in _folders(folder) if (run := read_folder(name)) is not None]
    tracking = found[-1] if found else None
    fields = read_small_json(folder / LATEST)
    if fields is None:
        return tracking
    return merged(tracking or Tracking(), read_fields(fields))


def _folders(folder: Path) -> list[str]:
    """Names of folders, oldest first: wandb begins them with the time."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        some = itertools.islice(entries, MAX_ENTRIES)
        names = [entry.name for entry in some if entry.is_dir(follow_symlinks=False)]
        return sorted(names, key=lambda name: name.removeprefix("offline-"))
    return []


def read_small_json(path: Path) -> dict[str, Any] | None:
    """The object in a small plain file; None when there is none. Never waits for a pipe. Blocks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_JSON_BYTES:
            return None
        fields = json.loads(os.read(descriptor, MAX_JSON_BYTES))
    # RecursionError: brackets nested deeper than Python can follow.
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return fields if isinstance(fields, dict) else None
