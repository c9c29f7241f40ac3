"""Progress of the runs under way, computed once for all watching clients. Pure: time is an argument."""

from __future__ import annotations

from runspine.domain.run.evolve import UNDERWAY
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.indexes.changes import ChangeReader
from runspine.wire.v1.trainer_pb2 import WatchResponse

PROGRESS_SECONDS = 0.5


class ProgressReader:
    """Responses that one client has not been sent yet; of each run, the newest."""

    def __init__(self, feed: ProgressFeed, first: dict[str, WatchResponse]) -> None:
        self._feed = feed
        self.pending = first

    def newest(self, now: float) -> list[WatchResponse]:
        """What has changed since the last call."""
        self._feed.refresh(now)
        taken, self.pending = self.pending, {}
        return [taken[run_id] for run_id in sorted(taken)]


class ProgressFeed:
    """Distributes what has changed to all readers. Without readers it costs nothing."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._readers: list[ProgressReader] = []
        self._changes: list[ChangeReader] = []
        self._sent: dict[str, bytes] = {}
        self._refreshed = float("-inf")

    def open(self) -> ProgressReader:
        """A new reader; it starts with every run under way."""
        if not self._readers:
            self._changes = [self._board.changed.reader(), self._board.progressed.reader()]
            self._sent.clear()
        found = {run_id: response for run_id in self._board.underway if (response := self._response(run_id))}
        reader = ProgressReader(self, found)
        self._readers.append(reader)
        return reader

    def close(self, reader: ProgressReader) -> None:
        self._readers.remove(reader)
        if not self._readers:
            for source, changes in zip(
                (self._board.changed, self._board.progressed), self._changes, strict=True
            ):
                source.close(changes)

    def refresh(self, now: float) -> None:
        """Pass on what has changed, at most once in PROGRESS_SECONDS, whichever reader asks."""
        if now - self._refreshed < PROGRESS_SECONDS * 0.9:
            return
        self._refreshed = now
        for run_id in set[str]().union(*(changes.take() for changes in self._changes)):
            response = self._response(run_id)
            if response is None:
                self._sent.pop(run_id, None)
                continue
            progress = response.progress.SerializeToString()
            if self._sent.get(run_id) != progress:
                self._sent[run_id] = progress
                for reader in self._readers:
                    reader.pending[run_id] = response

    def _response(self, run_id: str) -> WatchResponse | None:
        run = self._board.runs.get(run_id)
        if run is None or run.phase not in UNDERWAY:
            return None
        return WatchResponse(run_id=run_id, progress=self._board.progress(run))
