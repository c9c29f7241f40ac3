"""A run of W&B as it is recorded, whether the library works or its stand-in: rows, steps, files."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

from runspine.instrument.trackers.rows import HistoryRows, StepMetrics
from runspine.instrument.trackers.tracked_run import TrackedRun
from runspine.instrument.trackers.values import record_others, split


class WandbRecord:
    """What one `wandb.init` began."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.tracked = TrackedRun("wandb", enabled=enabled)
        self.rows = HistoryRows(self._emit)
        self.steps = StepMetrics()
        self._saved: dict[str, float] = {}
        self._globs: list[str] = []
        self._ended = False

    def log(self, values: Mapping[str, Any], step: Any = None, commit: bool | None = None) -> None:
        before = self.rows.ignored
        self.rows.log(values, None if step is None else int(step), commit)
        if self.rows.ignored > before:
            self.tracked.note(f"values for a step before {self.rows.step} are ignored, as W&B does")

    def save(self, pattern: Any) -> None:
        """Keep files now, and at the end those that have changed."""
        if isinstance(pattern, (str, os.PathLike)):
            self._globs.append(os.fspath(pattern))
            self._keep(os.fspath(pattern))

    def artifact(self, given: Any, name: Any = None, kind: Any = None) -> None:
        """Keep the files of an artifact, or a file or folder by its path."""
        if isinstance(given, (str, os.PathLike)):
            named = str(name or os.path.basename(os.fspath(given).rstrip("/")))
            self.tracked.file(given, named, artifact_type=str(kind or ""))
            return
        kind, named = getattr(given, "type", "") or "", getattr(given, "name", "") or ""
        if kind == "run_table":
            # The library's own copy of a table that was logged.
            return
        for entry, path in files_of(given):
            self.tracked.file(path, f"{named}/{entry}", artifact=str(named), artifact_type=str(kind))

    def finish(self) -> None:
        """Record the open row and changed files; safe to call again."""
        if not self._ended:
            self._ended = True
            self.rows.flush()
            for pattern in self._globs:
                self._keep(pattern)

    def _keep(self, pattern: str) -> None:
        for path in sorted(glob.glob(pattern)):
            changed = os.path.getmtime(path)
            if self._saved.get(path) != changed:
                self._saved[path] = changed
                self.tracked.file(path)

    def _emit(self, row: dict[str, Any], step: int) -> None:
        numbers, others = split(row)
        for at, values in self.steps.by_step(numbers, step).items():
            self.tracked.scalars(values, at)
        record_others(self.tracked, others, step)


def files_of(artifact: Any) -> list[tuple[str, str]]:
    """Names and paths of the files that were added to an artifact."""
    added = getattr(artifact, "runspine_files", None)
    if added is not None:
        return list(added)
    entries = getattr(getattr(artifact, "manifest", None), "entries", {})
    return [(name, entry.local_path) for name, entry in entries.items() if getattr(entry, "local_path", None)]
