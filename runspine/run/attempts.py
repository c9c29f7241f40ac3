"""The fold of attempts.<run_id>: what workers said of each attempt."""

from __future__ import annotations

from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.run_pb2 import Attempt, AttemptHistory


def apply_attempt(history: AttemptHistory, fact: Fact) -> None:
    """Fold one fact in place. The first word on an attempt's start or end stands."""
    match fact.WhichOneof("kind"):
        case "attempt_started":
            said = fact.attempt_started
            if find_attempt(history, said.attempt) is None:
                history.attempts.add(
                    number=said.attempt,
                    worker_id=said.worker_id,
                    host=said.host,
                    command=said.command,
                    directory=said.directory,
                    started_at=fact.at,
                    resumed_from=said.resumed_from if said.HasField("resumed_from") else None,
                )
        case "attempt_progressed":
            attempt = find_attempt(history, fact.attempt_progressed.attempt)
            if attempt is not None:
                attempt.progress.CopyFrom(fact.attempt_progressed.progress)
        case "artifact_produced":
            attempt = find_attempt(history, fact.artifact_produced.attempt)
            if attempt is not None:
                attempt.artifacts.append(fact.artifact_produced)
                _arrived(attempt)
        case "artifact_given_up":
            attempt = find_attempt(history, fact.artifact_given_up.attempt)
            if attempt is not None:
                _arrived(attempt)
        case "attempt_exited":
            attempt = find_attempt(history, fact.attempt_exited.attempt)
            if attempt is not None and not attempt.HasField("exited"):
                attempt.exited.CopyFrom(fact.attempt_exited)
                attempt.artifacts_pending = fact.attempt_exited.artifacts_pending
                attempt.ended_at = fact.at


def _arrived(attempt: Attempt) -> None:
    """One file less to wait for; before the end nobody has counted them."""
    attempt.artifacts_pending = max(0, attempt.artifacts_pending - 1)


def got_further(run_id: str, attempt: Attempt | None) -> bool:
    """Whether it left a checkpoint beyond the one it began with. Another run's weights are a beginning."""
    if attempt is None:
        return False
    began = attempt.resumed_from.step if attempt.resumed_from.run_id == run_id else 0
    return any(each.kind == "checkpoint" and each.step > began for each in attempt.artifacts)


def find_attempt(history: AttemptHistory, number: int) -> Attempt | None:
    for attempt in reversed(history.attempts):
        if attempt.number == number:
            return attempt
    return None
