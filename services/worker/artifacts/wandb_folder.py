"""Reads what wandb leaves in a run's directory: names of its folders, and `latest-run.json`.

A trainer writes there what it likes: links are not followed, and little is read.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

from runspine.domain.tracking import merged, read_fields, read_folder
from runspine.services.worker.artifacts.beneath import open_regular, opened_folder
from runspine.wire.v1.facts_pb2 import Tracking

FOLDER, LATEST = "wandb", "latest-run.json"
MAX_ENTRIES = 1000
MAX_JSON_BYTES = 64 << 10


def find_tracking(run_dir: Path) -> Tracking | None:
    """The newest W&B run of a trainer; None when it left nothing. Blocks."""
    found = [run for name in _folders(run_dir) if (run := read_folder(name)) is not None]
    tracking = found[-1] if found else None
    fields = read_small_json(run_dir, f"{FOLDER}/{LATEST}")
    if fields is None:
        return tracking
    return merged(tracking or Tracking(), read_fields(fields))


def _folders(run_dir: Path) -> list[str]:
    """Names of folders, oldest first: wandb begins them with the time."""
    with contextlib.suppress(OSError), opened_folder(run_dir / FOLDER) as folder, os.scandir(folder) as found:
        some = itertools.islice(found, MAX_ENTRIES)
        names = [entry.name for entry in some if entry.is_dir(follow_symlinks=False)]
        return sorted(names, key=lambda name: name.removeprefix("offline-"))
    return []


def read_small_json(run_dir: Path, path: str) -> dict[str, Any] | None:
    """The object in a small plain file below; None when there is none. Never waits for a pipe. Blocks."""
    try:
        with opened_folder(run_dir) as root:
            descriptor = open_regular(root, path)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_size > MAX_JSON_BYTES:
            return None
        fields = json.loads(os.read(descriptor, MAX_JSON_BYTES))
    # RecursionError: brackets nested deeper than Python can follow.
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return fields if isinstance(fields, dict) else None
