"""A run of a tracker, recorded in the run of this process: one for each `init`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runspine.domain.artifact_kinds import IMAGE, TABLE, VIDEO
from runspine.instrument.record import record
from runspine.instrument.startup.sitecustomize import plain as without_secrets
from runspine.instrument.trackers.pictures import write_picture, write_table
from runspine.instrument.writers import number

FOLDER = "media"
# Files of one process: a program that logs a picture at each step must not fill the bucket.
MAX_FILES = 1000
# Entries of a folder that is logged as one artifact.
MAX_ENTRIES = 1000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class TrackerCounts:
    """What this process has recorded of all trackers."""

    def __init__(self) -> None:
        # Names of trackers, one for each run that has begun.
        self.begun: list[str] = []
        self.files = 0
        self.noted: set[str] = set()


counts = TrackerCounts()


class TrackedRun:
    """Its first run has the names that the program gives; metrics of later ones have a prefix."""

    def __init__(self, tracker: str, *, enabled: bool = True) -> None:
        self.tracker = tracker
        self.enabled = enabled and record.run.active and not record.stood_down
        self.prefix = _prefix(tracker) if self.enabled else ""

    def config(self, values: Mapping[str, Any]) -> None:
        """Add to the run's configuration; values named like secrets are struck out."""
        if self.enabled and values:
            record.configure()
            found = {str(key): without_secrets(str(key), number(value)) for key, value in values.items()}
            record.run.log_config({"args": found})

    def about(self, **values: Any) -> None:
        """Record how the program calls the run there: project, name, group, tags."""
        kept = {key: without_secrets(key, value) for key, value in values.items() if value}
        if self.enabled and kept:
            record.run.log_config({self.tracker: kept})

    def scalars(self, values: Mapping[str, Any], step: int | None) -> None:
        if self.enabled and values:
            for name in values:
                record.scalar(name, step)
            record.run.log({f"{self.prefix}{name}": value for name, value in values.items()}, step)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Numbers that a program sets at the summary: metrics `summary/NAME`; texts are configuration."""
        found = flat(values)
        self.scalars({f"summary/{name}": value for name, value in found.items() if is_number(value)}, None)
        texts = {name: value for name, value in found.items() if isinstance(value, str)}
        if self.enabled and texts:
            record.run.log_config({"summary": without_secrets("", texts)})

    def histogram(self, name: str, values: Any, step: int | None) -> None:
        if self.enabled:
            record.run.log_histogram(f"{self.prefix}{name}", values, step)

    def text(self, name: str, text: str) -> None:
        if self.enabled:
            record.run.log_config({"text": {f"{self.prefix}{name}": text}})

    def picture(self, name: str, given: Any, step: int | None, caption: Any = None) -> None:
        if (path := self._new_file(name, step)) is not None:
            try:
                self._announce(write_picture(given, path), IMAGE, name, step, caption)
            except Exception as error:  # noqa: BLE001 - pictures of any library; the program goes on
                self.note(f"a picture of {name} is not kept: {error}")

    def table(self, name: str, columns: list[Any], rows: list[list[Any]], step: int | None) -> None:
        if (path := self._new_file(name, step)) is not None:
            self._announce(write_table(columns, rows, path), TABLE, name, step)

    def video(self, name: str, given: Any, step: int | None, caption: Any = None) -> None:
        if isinstance(given, (str, os.PathLike)) and os.path.isfile(given):
            self.file(given, name, kind=VIDEO, step=step, caption=caption)
        else:
            self.note(f"video {name} is an array and is not kept: give the path of a file")

    def file(
        self, path: Any, name: str = "", kind: str = "file", step: int | None = None, **meta: Any
    ) -> None:
        """Keep a file as it is now, or every file of a folder."""
        if not self.enabled:
            return
        path = Path(path)
        if not path.is_dir():
            self._upload(path, name or path.name, kind, step, meta)
            return
        entries = [each for each in sorted(path.rglob("*")) if each.is_file() and not each.is_symlink()]
        if len(entries) > MAX_ENTRIES:
            self.note(f"of {len(entries):,} files in {path} the first {MAX_ENTRIES:,} are kept")
        for entry in entries[:MAX_ENTRIES]:
            self._upload(entry, f"{name or path.name}/{entry.relative_to(path)}", kind, step, meta)

    def note(self, text: str) -> None:
        """Write a line into the run's log, once for each text."""
        if self.enabled and text not in counts.noted and len(counts.noted) < MAX_FILES:
            counts.noted.add(text)
            record.run.note(f"{self.tracker}: {text}")

    def _upload(self, path: Path, name: str, kind: str, step: int | None, meta: Mapping[str, Any]) -> None:
        if not path.is_file():
            self.note(f"{path} is no file and is not kept")
        elif self._counted():
            kept = {key: value for key, value in meta.items() if value}
            record.run.log_artifact(path, kind=kind, name=name, step=step, source=self.tracker, **kept)

    def _new_file(self, name: str, step: int | None) -> Path | None:
        """Where to write a file, without its suffix; None when there are enough."""
        if not self.enabled or not self._counted():
            return None
        folder = record.run.dir / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        where = f"{_UNSAFE.sub('_', self.prefix + name)[:100]}_{step or 0}_{os.getpid()}_{counts.files}"
        return folder / where

    def _announce(self, path: Path, kind: str, name: str, step: int | None, caption: Any = None) -> None:
        kept = {"caption": str(caption)} if caption else {}
        named = f"{self.prefix}{name}{path.suffix}"
        record.run.log_artifact(path, kind=kind, name=named, step=step, source=self.tracker, **kept)

    def _counted(self) -> bool:
        counts.files += 1
        if counts.files > MAX_FILES:
            self.note(f"more than {MAX_FILES:,} files: the rest is not kept")
        return counts.files <= MAX_FILES


def _prefix(tracker: str) -> str:
    """Of the metrics of a run that begins now: none for the first one of the process."""
    before = counts.begun.count(tracker)
    first = not counts.begun or counts.begun[0] == tracker
    counts.begun.append(tracker)
    if first:
        return f"run{before + 1}/" if before else ""
    return f"{tracker}{before + 1}/" if before else f"{tracker}/"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested names joined by a slash; arrays of one element as numbers."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}/")
        else:
            found[name] = number(value)
    return found


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) or (
        hasattr(value, "__float__") and not hasattr(value, "__len__")
    )


def is_array(value: Any) -> bool:
    """Whether it is an array or tensor of numbers with several elements."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return True
    return bool(kind) and kind in "biuf"
