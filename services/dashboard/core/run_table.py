"""Table of all runs, folded from List and Watch. Entries have versions, so that changes can be queried."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from runspine.services.dashboard.core.run_row import finite_or_none, run_row
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import RunSummary, WatchResponse

# Points of the sparkline in a row.
MAX_SPARK_POINTS = 40


@dataclass(slots=True)
class RunTableEntry:
    run: Run
    progress: Progress = field(default_factory=Progress)
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SPARK_POINTS))
    version: int = 0
    # What a search for words looks through, without case.
    search_text: str = ""
    # Cached JSON of the row, with the version it was made from.
    _row: tuple[int, str] = (-1, "")

    def row(self) -> dict[str, Any]:
        return run_row(self.run, self.progress, self.returns)

    def as_json(self) -> str:
        """The row as JSON, encoded once per change and shared by all pages."""
        if self._row[0] != self.version:
            self._row = (self.version, orjson.dumps(self.row()).decode())
        return self._row[1]


class RunTable:
    """Runs by id, in order of their last change."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, RunTableEntry] = OrderedDict()
        self.version = 0
        # Last position of the RUNS stream that is folded in.
        self.position = 0
        # Names of parameters and labels that runs have had.
        self.params: set[str] = set()
        self.labels: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, run_id: str) -> RunTableEntry | None:
        return self._entries.get(run_id)

    def entries(self) -> Iterable[RunTableEntry]:
        return self._entries.values()

    def changed_since(self, version: int) -> list[RunTableEntry]:
        """Entries that changed after a version, newest change first; linear in the number returned."""
        found = []
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                break
            found.append(entry)
        return found

    def apply_summary(self, summary: RunSummary) -> None:
        """Apply an entry of a listing unless a newer state of the run is known from Watch."""
        known = self._entries.get(summary.run.id)
        if known is None or known.run.position <= summary.run.position:
            self._put(summary.run, summary.progress)
        self.position = max(self.position, summary.run.position)

    def apply_watch(self, message: WatchResponse) -> None:
        """Apply a Watch message: new facts with the run's state, or progress alone."""
        progress = message.progress if message.HasField("progress") else None
        known = self._entries.get(message.run_id)
        if message.facts:
            self._put(message.run, progress)
        elif known is not None:
            self._put(known.run, progress)
        self.position = max(self.position, message.position)

    def _put(self, run: Run, progress: Progress | None) -> None:
        entry = self._entries.get(run.id) or RunTableEntry(run)
        if entry.run is not run or not entry.search_text:
            entry.run, entry.search_text = run, search_text(run)
            self.params.update(run.spec.params)
            self.labels.update(run.labels)
        if progress is not None:
            if progress.HasField("mean_return") and progress.episodes != entry.progress.episodes:
                value = finite_or_none(progress.mean_return)
                if value is not None:
                    entry.returns.append(value)
            entry.progress = progress
        self.version += 1
        entry.version = self.version
        self._entries[run.id] = entry
        self._entries.move_to_end(run.id)


def search_text(run: Run) -> str:
    """What a search for words looks through."""
    spec = run.spec
    words = [run.name, run.id, spec.env, spec.algo, spec.runner, spec.project, run.submitted_by]
    words += [f"{key}={value}" for key, value in run.labels.items()]
    return "\n".join(word for word in words if word).casefold()
