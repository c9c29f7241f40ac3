"""Runs on which no decision can be recorded: their history is damaged, or the server refuses their commits.

They are left alone and tried again from time to time, as a new leader may have what the last one lost; all
other runs go on."""

from __future__ import annotations

import structlog

from runspine.eventlog import CorruptError
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.edges import metrics

log = structlog.get_logger()

# How long such a run is left alone before it is tried again.
RETRY_SECONDS = 30.0


class SetAsideRuns:
    """Keeps the reasons on the board, the times here."""

    def __init__(self, board: Board) -> None:
        self._reasons = board.set_aside
        self._board = board
        self._until: dict[str, float] = {}

    def add(self, run_id: str, error: Exception, now: float) -> None:
        reason = str(error) if isinstance(error, CorruptError) else f"{error}; run `runspine events verify`"
        if self._reasons.get(run_id) != reason:
            log.error("run.set_aside", run_id=run_id, error=str(error))
        self._reasons[run_id] = reason
        self._board.changed.add(run_id)
        self._until[run_id] = now + RETRY_SECONDS
        metrics.SET_ASIDE.set(len(self._reasons))

    def holds(self, run_id: str, now: float) -> bool:
        """Whether the run is to be left alone now."""
        return now < self._until.get(run_id, 0.0)

    def discard(self, run_id: str) -> None:
        """A decision on the run was recorded, or it has ended."""
        if self._until.pop(run_id, None) is not None:
            del self._reasons[run_id]
            self._board.changed.add(run_id)
            metrics.SET_ASIDE.set(len(self._reasons))

    def due(self, now: float) -> set[str]:
        """Runs to try again."""
        for run_id in [run_id for run_id in self._until if run_id not in self._board.open]:
            self.discard(run_id)
        return {run_id for run_id, until in self._until.items() if until <= now}
