"""The fold of attempts.<run_id>: the facts that workers report of each attempt."""

from __future__ import annotations

from collections.abc import Sequence

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.wire.v1.facts_pb2 import Fact, Tracking
from runspine.wire.v1.run_pb2 import Attempt, AttemptHistory


def apply_attempt(history: AttemptHistory, fact: Fact) -> None:
    """Fold one fact in place. The first start and the first end of an attempt count."""
    match fact.WhichOneof("kind"):
        case "attempt_started":
            started = fact.attempt_started
            if find_attempt(history, started.attempt) is None:
                history.attempts.add(
                    number=started.attempt,
                    worker_id=started.worker_id,
                    host=started.host,
                    command=started.command,
                    directory=started.directory,
                    started_at=fact.at,
                    resumed_from=started.resumed_from if started.HasField("resumed_from") else None,
                    versions=started.versions,
                    provenance=started.provenance if started.HasField("provenance") else None,
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
        case "trainer_described":
            attempt = find_attempt(history, fact.trainer_described.attempt)
            if attempt is not None:
                attempt.described.CopyFrom(fact.trainer_described)
        case "tracking_reported":
            attempt = find_attempt(history, fact.tracking_reported.attempt)
            if attempt is not None:
                attempt.tracking.CopyFrom(fact.tracking_reported.tracking)
        case "attempt_exited":
            attempt = find_attempt(history, fact.attempt_exited.attempt)
            if attempt is not None and not attempt.HasField("exited"):
                attempt.exited.CopyFrom(fact.attempt_exited)
                attempt.artifacts_pending = fact.attempt_exited.artifacts_pending
                attempt.ended_at = fact.at
        case "placement_ended":
            if fact.placement_ended.attempt >= history.placement_ended.attempt:
                history.placement_ended.CopyFrom(fact.placement_ended)


def _arrived(attempt: Attempt) -> None:
    """Count down the pending uploads; before the attempt's end the count is 0."""
    attempt.artifacts_pending = max(0, attempt.artifacts_pending - 1)


def got_further(run_id: str, attempt: Attempt | None) -> bool:
    """Whether it produced a checkpoint beyond the one it resumed from. A warm start counts as step 0."""
    if attempt is None:
        return False
    began = attempt.resumed_from.step if attempt.resumed_from.run_id == run_id else 0
    return any(each.kind == CHECKPOINT and each.step > began for each in attempt.artifacts)


def newest_tracking(attempts: Sequence[Attempt]) -> Tracking | None:
    """The run at an experiment tracker, of the newest attempt that has one."""
    return next((each.tracking for each in reversed(attempts) if each.HasField("tracking")), None)


def find_attempt(history: AttemptHistory, number: int) -> Attempt | None:
    """The attempt of this number."""
    for attempt in reversed(history.attempts):
        if attempt.number == number:
            return attempt
    return None
