"""What a trainer leaves in its directory without a word, as CleanRL lays it out. Nothing need exist."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VIDEO, TENSORBOARD, MODEL, WANDB = "video", "tensorboard", "model", "wandb"
_FILMS = (".mp4", ".webm", ".gif", ".avi", ".mkv")
# Of each kind, the newest so many: a run that films every episode must not fill the bucket.
MOST_OF_A_KIND = 200
# How many names are looked at, whatever they are.
MOST_NAMES = 100_000


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    # Below the run's directory.
    path: str


@dataclass(frozen=True, slots=True)
class Found:
    files: list[Finding]
    # For the run's log: what was left out.
    remarks: list[str]


def look(run_dir: Path) -> Found:
    """Every file worth keeping, oldest first; links are not followed. Blocks."""
    files: dict[str, list[tuple[int, str]]] = {}
    remarks = []
    for seen, (path, changed) in enumerate(_walk(run_dir)):
        if seen >= MOST_NAMES:
            remarks.append(f"more than {MOST_NAMES:,} files in its directory: the rest is not looked at")
            break
        kind = kind_of(path)
        if kind:
            files.setdefault(kind, []).append((changed, path))
    found = []
    for kind, all_of_it in sorted(files.items()):
        all_of_it.sort()
        if len(all_of_it) > MOST_OF_A_KIND:
            left = len(all_of_it) - MOST_OF_A_KIND
            remarks.append(
                f"{left:,} older {kind} files are not uploaded: the newest {MOST_OF_A_KIND} are. "
                "Announce those that matter, or write fewer"
            )
        found += [Finding(kind, path) for _, path in all_of_it[-MOST_OF_A_KIND:]]
    return Found(found, remarks)


def kind_of(path: str) -> str:
    """What a file is by its place and name; empty when it is nothing to keep."""
    top, _, rest = path.partition("/")
    name = path.rpartition("/")[2]
    if name.endswith(".cleanrl_model"):
        return MODEL
    if top == "videos" and rest and name.lower().endswith(_FILMS):
        return VIDEO
    if top == "runs" and rest and name.startswith("events.out.tfevents."):
        return TENSORBOARD
    if top == "wandb" and rest:
        return WANDB
    return ""


def _walk(root: Path) -> Iterator[tuple[str, int]]:
    """Plain files below, as paths relative to it, and when each was changed."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False).st_mtime_ns
            except OSError:
                continue
