"""Commands that follow from the facts of workers. Pure, from state: repeating one changes nothing."""

from __future__ import annotations

from runspine.domain.run.attempts import find_attempt, got_further
from runspine.domain.run.commands import Command, RecordExit, RecordStart
from runspine.domain.run.evolve import ENDED
from runspine.wire.v1.run_pb2 import QUEUED, AttemptHistory, Run


def react(run: Run, history: AttemptHistory | None, now: int) -> Command | None:
    """The command that brings a run in line with its current attempt, if any is due."""
    if run.phase in ENDED or history is None:
        return None
    attempt = find_attempt(history, run.attempt)
    if attempt is None:
        return None
    if attempt.HasField("exited"):
        further = got_further(run.id, attempt)
        return RecordExit(at=now, exited=attempt.exited, ended_at=attempt.ended_at, got_further=further)
    if run.phase == QUEUED:
        return RecordStart(at=attempt.started_at, attempt=attempt.number, worker_id=attempt.worker_id)
    return None
