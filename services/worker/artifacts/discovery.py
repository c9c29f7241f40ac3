"""Finds unannounced files in a run's directory: videos, models and W&B by CleanRL's layout, TensorBoard's."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.domain.artifact_kinds import MODEL, TENSORBOARD, VIDEO, WANDB
from runspine.domain.downloads import is_download
from runspine.domain.event_files import NOT_FOLLOWED, is_event_file
from runspine.services.worker.artifacts.beneath import opened_folder
from runspine.services.worker.artifacts.code_folder import TREE_TIME, WORK

_VIDEO_SUFFIXES = (".mp4", ".webm", ".gif", ".avi", ".mkv")
# Of each kind only the newest: a run that films every episode must not fill the bucket.
MAX_PER_KIND = 200
# How many names are examined, of any kind.
MAX_NAMES = 100_000


@dataclass(frozen=True, slots=True)
class DiscoveredFile:
    """A file worth uploading."""

    kind: str
    # Below the run's directory.
    path: str
    # Below the working copy of the run's code, if it is there; otherwise the path is its name.
    name: str = ""


@dataclass(frozen=True, slots=True)
class DiscoveredFiles:
    """The result of a search."""

    files: list[DiscoveredFile]
    # For the run's log: what was left out.
    notes: list[str]


def discover(run_dir: Path, work: Path | None = None) -> DiscoveredFiles:
    """Find every file worth uploading, oldest first; links are not followed. Blocks.

    `work` is the folder in which the program started, in a working copy of its code: there, paths count from
    it, and files of the code itself are not uploaded.
    """
    files: dict[str, list[tuple[int, str]]] = {}
    notes = []
    start = os.path.relpath(work, run_dir) + "/" if work is not None else ""
    for seen, (path, changed) in enumerate(_walk(run_dir)):
        if seen >= MAX_NAMES:
            notes.append(f"more than {MAX_NAMES:,} files in its directory: the rest is not examined")
            break
        if start and path.startswith(f"{WORK}/"):
            kind = "" if changed == TREE_TIME else kind_of(_name(path, start))
        else:
            kind = kind_of(path)
        if kind:
            files.setdefault(kind, []).append((changed, path))
    found = []
    for kind, all_of_it in sorted(files.items()):
        all_of_it.sort()
        if len(all_of_it) > MAX_PER_KIND:
            left = len(all_of_it) - MAX_PER_KIND
            notes.append(
                f"{left:,} older {kind} files are not uploaded: the newest {MAX_PER_KIND} are. "
                "Announce those that matter, or write fewer"
            )
        found += [
            DiscoveredFile(kind, path, _name(path, start) if start else "")
            for _, path in all_of_it[-MAX_PER_KIND:]
        ]
    return DiscoveredFiles(found, notes)


def _name(path: str, start: str) -> str:
    """The path below the folder in which the program started, or below the working copy."""
    return path.removeprefix(start) if path.startswith(start) else path.removeprefix(f"{WORK}/")


def event_files_in(run_dir: Path, event: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """An artifact line for each event file in a folder of TensorBoard; None when it names no such folder."""
    given = str(event["path"])
    if event["kind"] != TENSORBOARD or "\0" in given:
        return None
    folder = run_dir.resolve() / given
    if not folder.is_dir() or not (folder := folder.resolve()).is_relative_to(run_dir.resolve()):
        return None
    found = [path for path, _ in itertools.islice(_walk(folder), MAX_NAMES) if is_event_file(path)]
    return [
        {**event, "path": os.path.join(given, path), "name": None} for path in sorted(found)[-MAX_PER_KIND:]
    ]


def kind_of(path: str) -> str:
    """The artifact kind of a file by its path; empty when it is not uploaded."""
    top, _, rest = path.partition("/")
    name = path.rpartition("/")[2]
    if is_download(path):
        return ""
    if name.endswith(".cleanrl_model"):
        return MODEL
    if top == "videos" and rest and name.lower().endswith(_VIDEO_SUFFIXES):
        return VIDEO
    if is_event_file(path) and not (rest and top in NOT_FOLLOWED):
        return TENSORBOARD
    if top == "wandb" and rest:
        return WANDB
    return ""


def _walk(root: Path) -> Iterator[tuple[str, int]]:
    """Plain files below `root`, as relative paths with their modification times."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for name, is_folder, changed in _entries(root / folder):
            path = f"{folder}/{name}" if folder else name
            if is_folder:
                waiting.append(path)
            else:
                yield path, changed


def _entries(folder: Path) -> list[tuple[str, bool, int]]:
    """Name, whether it is a folder, and modification time of the folders and plain files in a folder."""
    found = []
    with contextlib.suppress(OSError), opened_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    found.append((entry.name, True, 0))
                elif entry.is_file(follow_symlinks=False):
                    found.append((entry.name, False, entry.stat(follow_symlinks=False).st_mtime_ns))
    return found
