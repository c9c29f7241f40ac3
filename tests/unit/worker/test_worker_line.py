"""Which checkpoints an attempt may go on from: those on the line of attempts that led to it."""

from __future__ import annotations

from runspine.services.worker.artifacts.resume import resumable_checkpoints
from runspine.wire.v1.facts_pb2 import ArtifactProduced, AttemptStarted, Fact, ResumedFrom


def started(attempt: int, source: int = 0, step: int = 0, run_id: str = "r1") -> Fact:
    resumed = ResumedFrom(run_id=run_id, attempt=source, step=step) if source else None
    return Fact(attempt_started=AttemptStarted(attempt=attempt, resumed_from=resumed))


def checkpoint(attempt: int, step: int) -> Fact:
    return Fact(artifact_produced=ArtifactProduced(attempt=attempt, step=step, kind="checkpoint"))


def found(*history: Fact) -> list[tuple[int, int]]:
    return [(each.attempt, each.step) for each in resumable_checkpoints("r1", list(history))]


def test_the_furthest_checkpoint_of_the_last_attempt_and_of_what_it_went_on_from_comes_first() -> None:
    history = [started(1), checkpoint(1, 100), checkpoint(1, 200), started(2, 1, 200), checkpoint(2, 300)]
    assert found(*history) == [(2, 300), (1, 200), (1, 100)]


def test_a_checkpoint_stored_too_late_for_the_next_attempt_is_left_aside() -> None:
    """Attempt 2 has gone on from 200 and done steps of its own: 400 of attempt 1 does not follow on them."""
    history = [started(1), checkpoint(1, 200), started(2, 1, 200), checkpoint(1, 400)]
    assert found(*history) == [(1, 200)]
    assert found(*history, started(3, 1, 200), checkpoint(3, 300)) == [(3, 300), (1, 200)]


def test_an_attempt_that_began_again_or_with_weights_of_another_run_has_no_history() -> None:
    assert found(started(1), checkpoint(1, 200), started(2)) == []
    assert found(started(1), checkpoint(1, 200), started(2, 1, 200, run_id="r0")) == []


def test_a_run_without_attempts_has_no_checkpoint() -> None:
    assert found() == []
