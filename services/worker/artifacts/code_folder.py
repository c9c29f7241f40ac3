"""The working copy of a run's code: a folder of the run's directory, in which the program starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Below the run's directory.
WORK = "work"
# Modification time of files as stored, on every worker: one with another time was written by the run.
TREE_TIME = 946_684_800 * 1_000_000_000


def work_folder(run_dir: Path) -> Path:
    return run_dir / WORK


def below_run(event: Mapping[str, Any], run_dir: Path, start: Path | None) -> dict[str, Any]:
    """An artifact line with its path below the run's directory.

    A program that runs in a working copy gives paths relative to the folder it started in.
    """
    given = str(event.get("path"))
    if start is None or "\0" in given:
        return dict(event)
    path = given
    if not os.path.isabs(given) and os.path.lexists(start / given):
        path = os.path.relpath(start / given, run_dir)
    return {**event, "path": path, "name": event.get("name") or _name(run_dir / path, run_dir, start)}


def _name(path: Path, run_dir: Path, start: Path) -> str | None:
    """The path below the folder in which the program started, or below the working copy; None elsewhere."""
    for folder in (start, work_folder(run_dir)):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return None
