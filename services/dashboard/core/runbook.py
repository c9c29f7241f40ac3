"""All runs as the page knows them: a fold of what Watch says, numbered so that changes can be asked for."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import RunSummary, WatchResponse
from services.dashboard.core.runrow import finite, run_row

# Points of the small curve in a row.
SPARK = 40


@dataclass(slots=True)
class Entry:
    run: Run
    progress: Progress = field(default_factory=Progress)
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=SPARK))
    version: int = 0
    # The row as JSON, of which version.
    _row: tuple[int, str] = (-1, "")

    def row(self) -> dict[str, Any]:
        return run_row(self.run, self.progress, self.returns)

    def as_json(self) -> str:
        """The row as every page gets it; made once for each change."""
        if self._row[0] != self.version:
            self._row = (self.version, orjson.dumps(self.row()).decode())
        return self._row[1]


class RunBook:
    """Runs by id, the least recently changed first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self.version = 0
        # Furthest position of the RUNS stream that is folded in.
        self.position = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, run_id: str) -> Entry | None:
        return self._entries.get(run_id)

    def entries(self) -> Iterable[Entry]:
        return self._entries.values()

    def changed_since(self, version: int) -> list[Entry]:
        """Entries that changed after a version, the newest change first. Costs what it returns."""
        found = []
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                break
            found.append(entry)
        return found

    def take_summary(self, summary: RunSummary) -> None:
        """From a listing; what a watch said later is not overwritten by it."""
        known = self._entries.get(summary.run.id)
        if known is None or known.run.position <= summary.run.position:
            self._put(summary.run, summary.progress)
        self.position = max(self.position, summary.run.position)

    def take_watch(self, message: WatchResponse) -> None:
        progress = message.progress if message.HasField("progress") else None
        known = self._entries.get(message.run_id)
        if message.facts:
            self._put(message.run, progress)
        elif known is not None:
            self._put(known.run, progress)
        self.position = max(self.position, message.position)

    def _put(self, run: Run, progress: Progress | None) -> None:
        entry = self._entries.get(run.id) or Entry(run)
        entry.run = run
        if progress is not None:
            if progress.HasField("mean_return") and progress.episodes != entry.progress.episodes:
                value = finite(progress.mean_return)
                if value is not None:
                    entry.returns.append(value)
            entry.progress = progress
        self.version += 1
        entry.version = self.version
        self._entries[run.id] = entry
        self._entries.move_to_end(run.id)
