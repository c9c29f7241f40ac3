"""Commands that follow from the facts of workers. Pure, from state: repeating one changes nothing."""

from __future__ import annotations

from runspine.domain.run.attempts import find_attempt, got_further
from runspine.domain.run.commands import Command, RecordExit, RecordPlacementEnd, RecordStart
from runspine.domain.run.evolve import ENDED
from runspine.wire.v1.run_pb2 import QUEUED, AttemptHistory, Run


def react(run: Run, history: AttemptHistory | None, now: int) -> Command | None:
    """The command that brings a run in line with its current attempt, if any is due."""
    if run.phase in ENDED or history is None:
        return None
    attempt = find_attempt(history, run.attempt)
    ended = history.placement_ended if history.placement_ended.attempt == run.attempt else None
    if attempt is None:
        return RecordPlacementEnd(now, run.attempt, ended.stop) if ended else None
    if attempt.HasField("exited"):
        further = got_further(run.id, attempt)
        return RecordExit(at=now, exited=attempt.exited, ended_at=attempt.ended_at, got_further=further)
    if run.phase == QUEUED:
        return RecordStart(at=attempt.started_at, attempt=attempt.number, worker_id=attempt.worker_id)
    if ended and ended.worker_id == attempt.worker_id:
        return RecordPlacementEnd(now, run.attempt, ended.stop, got_further(run.id, attempt))
    return None
