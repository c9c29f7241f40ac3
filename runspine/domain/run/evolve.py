"""The fold of runs.<run_id>. It never refuses: a fact on the log has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runspine.domain.defaults import DEFAULT_PRIORITY
from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    CANCELLING,
    COMPLETED,
    FAILED,
    QUARANTINED,
    QUEUED,
    RUNNING,
    STALE,
    SUBMITTED,
    Run,
)

ENDED = frozenset({COMPLETED, FAILED, CANCELLED})
# Phases with a started attempt.
UNDERWAY = frozenset({RUNNING, STALE, CANCELLING})
# A quarantined run may go on when it is released. No fact leads to this phase: readers show it.
ACTIVE = frozenset({SUBMITTED, QUEUED, QUARANTINED}) | UNDERWAY


def evolve(run: Run, fact: Fact) -> Run:
    """The run after one more fact."""
    return fold([fact], run)


def fold(facts: Iterable[Fact], run: Run | None = None) -> Run:
    """The run after these facts, on top of `run` if given (which is not changed)."""
    after = Run()
    if run is not None:
        after.CopyFrom(run)
    for fact in facts:
        apply(after, fact)
    return after


def apply(run: Run, fact: Fact) -> None:
    """Fold one fact into a run in place; for readers that own the run and fold millions."""
    kind = fact.WhichOneof("kind")
    step = _STEPS.get(kind or "")
    if step is not None:
        step(run, fact)


def _submitted(run: Run, fact: Fact) -> None:
    submitted = fact.run_submitted
    run.id, run.name = submitted.run_id, submitted.name
    run.submitted_by, run.parent = submitted.submitted_by, submitted.parent
    run.spec.CopyFrom(submitted.spec)
    run.phase = SUBMITTED
    run.submitted_at = fact.at
    run.priority = submitted.spec.priority if submitted.spec.HasField("priority") else DEFAULT_PRIORITY
    run.labels.update(submitted.spec.labels)
    if submitted.HasField("preflight"):
        run.preflight.CopyFrom(submitted.preflight)


def _queued(run: Run, fact: Fact) -> None:
    run.phase = QUEUED
    run.attempt = fact.run_queued.attempt
    run.queued_at = fact.at


def _started(run: Run, fact: Fact) -> None:
    run.phase = RUNNING
    run.attempt, run.worker_id = fact.run_started.attempt, fact.run_started.worker_id
    run.started_at = run.last_heard = fact.at
    run.reason = ""


def _went_stale(run: Run, fact: Fact) -> None:
    run.phase = STALE
    run.last_heard = fact.run_went_stale.last_heard
    run.reason = f"worker {run.worker_id} sends no heartbeats"


def _came_back(run: Run, fact: Fact) -> None:
    run.phase = RUNNING
    run.last_heard = fact.at
    run.reason = ""


def _cancel_requested(run: Run, fact: Fact) -> None:
    run.phase = CANCELLING
    run.reason = fact.run_cancel_requested.reason or "cancel requested"


def _completed(run: Run, fact: Fact) -> None:
    run.phase = COMPLETED
    run.ended_at = fact.at
    run.reason = fact.run_completed.reason
    run.counts.CopyFrom(fact.run_completed.counts)


def _failed(run: Run, fact: Fact) -> None:
    run.phase = FAILED
    run.ended_at = fact.at
    run.reason = fact.run_failed.reason
    run.failures += 1
    run.counts.CopyFrom(fact.run_failed.counts)


def _cancelled(run: Run, fact: Fact) -> None:
    run.phase = CANCELLED
    run.ended_at = fact.at
    run.reason = fact.run_cancelled.reason
    run.counts.CopyFrom(fact.run_cancelled.counts)


def _requeued(run: Run, fact: Fact) -> None:
    requeued = fact.run_requeued
    run.phase = QUEUED
    run.attempt, run.reason, run.not_before = requeued.attempt, requeued.reason, requeued.not_before
    run.worker_id = ""
    run.queued_at = fact.at
    if requeued.handed_back:
        run.hand_backs += 1
    elif requeued.lost:
        run.losses += 1
        run.fruitless_losses = 0 if requeued.got_further else run.fruitless_losses + 1
    else:
        run.failures += 1


def _priority_changed(run: Run, fact: Fact) -> None:
    run.priority = fact.run_priority_changed.priority


def _labelled(run: Run, fact: Fact) -> None:
    for label, value in fact.run_labelled.labels.items():
        if value:
            run.labels[label] = value
        else:
            run.labels.pop(label, None)


# Every fact on runs.<run_id>; a test fails when one is missing here.
_STEPS: dict[str, Callable[[Run, Fact], None]] = {
    "run_submitted": _submitted,
    "run_queued": _queued,
    "run_started": _started,
    "run_went_stale": _went_stale,
    "run_came_back": _came_back,
    "run_cancel_requested": _cancel_requested,
    "run_completed": _completed,
    "run_failed": _failed,
    "run_cancelled": _cancelled,
    "run_requeued": _requeued,
    "run_priority_changed": _priority_changed,
    "run_labelled": _labelled,
}
FOLDED = frozenset(_STEPS)
