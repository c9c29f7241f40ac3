"""Rules of a run: which facts follow from a command. `decide` may refuse but changes nothing."""

from __future__ import annotations

from runspine.domain.run.commands import (
    Cancel,
    ComeBack,
    Command,
    GiveUp,
    GoStale,
    RecordExit,
    RecordPlacementEnd,
    RecordStart,
    SetLabels,
    SetPriority,
    Submit,
)
from runspine.domain.run.evolve import ENDED
from runspine.wire.v1.facts_pb2 import (
    CANCELLED_BY_OPERATOR,
    ENGINE_CAUSE_UNSPECIFIED,
    ENGINE_REQUEUED,
    EXITED,
    FINISHED,
    HANDED_BACK,
    LOST,
    NODE_FAILED,
    PREEMPTED,
    STOPPED,
    TIME_LIMIT,
    Counts,
    EngineStop,
    Fact,
    RunCameBack,
    RunCancelled,
    RunCancelRequested,
    RunCompleted,
    RunFailed,
    RunLabelled,
    RunPriorityChanged,
    RunQueued,
    RunRequeued,
    RunStarted,
    RunSubmitted,
    RunWentStale,
)
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    CANCELLING,
    PHASE_UNSPECIFIED,
    QUEUED,
    RUNNING,
    STALE,
    SUBMITTED,
    Phase,
    Run,
)

# Bounds the losses of a run that crashes its workers. A loss after a new checkpoint is not counted: workers
# on preemptible machines are lost every day.
MAX_LOSSES = 10
MAX_BACKOFF_SECONDS = 3600.0


class RunRefusedError(Exception):
    """The run's phase does not allow this command."""


def decide(run: Run, command: Command) -> list[Fact]:
    """The facts that follow from a command; none when it changes nothing."""
    if isinstance(command, Submit):
        return _submit(run, command)
    if run.phase == PHASE_UNSPECIFIED:
        raise RunRefusedError("there is no such run")
    match command:
        case Cancel():
            return _cancel(run, command)
        case RecordStart():
            return _start(run, command)
        case RecordExit():
            return _exit(run, command)
        case GoStale(at=at, attempt=attempt, last_heard=last_heard):
            if run.phase != RUNNING or attempt != run.attempt:
                return []
            return [Fact(at=at, run_went_stale=RunWentStale(attempt=attempt, last_heard=last_heard))]
        case ComeBack(at=at, attempt=attempt):
            if run.phase != STALE or attempt != run.attempt:
                return []
            return [Fact(at=at, run_came_back=RunCameBack(attempt=attempt))]
        case GiveUp(at=at, attempt=attempt, reason=reason, got_further=got_further):
            if run.phase not in (STALE, CANCELLING) or attempt != run.attempt:
                return []
            return _lost(run, at, at, reason, Counts(), got_further)
        case RecordPlacementEnd():
            return _placement_end(run, command)
        case SetPriority(at=at, priority=priority, by=by):
            return _set_priority(run, at, priority, by)
        case SetLabels(at=at, labels=labels, by=by):
            changes = {k: v for k, v in labels.items() if run.labels.get(k, "") != v}
            return [Fact(at=at, run_labelled=RunLabelled(labels=changes, changed_by=by))] if changes else []


def _submit(run: Run, command: Submit) -> list[Fact]:
    if run.phase != PHASE_UNSPECIFIED:
        if run.id == command.run_id and run.spec == command.spec:
            return []
        raise RunRefusedError(f"run {command.run_id} exists already with another spec")
    submitted = RunSubmitted(
        run_id=command.run_id,
        name=command.name,
        spec=command.spec,
        submitted_by=command.by,
        parent=command.parent,
        idempotency_key=command.key,
        preflight=command.preflight,
    )
    return [
        Fact(at=command.at, run_submitted=submitted),
        Fact(at=command.at, run_queued=RunQueued(attempt=1)),
    ]


def _cancel(run: Run, command: Cancel) -> list[Fact]:
    if run.phase in (CANCELLED, CANCELLING):
        return []
    if run.phase in ENDED:
        raise RunRefusedError(f"run {run.id} is {Phase.Name(run.phase)} already: there is nothing to cancel")
    requested = RunCancelRequested(requested_by=command.by, reason=command.reason)
    facts = [Fact(at=command.at, run_cancel_requested=requested)]
    if run.phase in (SUBMITTED, QUEUED):
        facts.append(_cancelled(run, command.at, command.reason or "cancelled before it began", Counts()))
    return facts


def _start(run: Run, command: RecordStart) -> list[Fact]:
    if run.phase != QUEUED or command.attempt != run.attempt:
        return []  # late, or recorded already
    return [_started(command.at, command.attempt, command.worker_id)]


def _exit(run: Run, command: RecordExit) -> list[Fact]:
    exited = command.exited
    if run.phase in ENDED or exited.attempt != run.attempt:
        return []  # late: the worker was paused
    facts = []
    if run.phase == QUEUED:
        facts.append(_started(command.ended_at, exited.attempt, exited.worker_id))
    return facts + _ending(run, command)


def _ending(run: Run, command: RecordExit) -> list[Fact]:
    """The facts of an attempt's end, at the worker's time; a requeue is at the time of the decision."""
    exited, at = command.exited, command.ended_at
    clean = exited.outcome == EXITED and exited.exit_code == 0 and exited.signal == 0
    if clean or exited.outcome == FINISHED:
        completed = RunCompleted(attempt=exited.attempt, counts=exited.counts)
        completed.reason = "" if clean else exited.reason
        return [Fact(at=at, run_completed=completed)]
    if run.phase == CANCELLING:
        return [_cancelled(run, at, run.reason, exited.counts)]
    if exited.HasField("engine_stop") and exited.outcome == HANDED_BACK:
        return _engine_stop(run, at, command.at, exited.engine_stop, exited.counts, command.got_further)
    if exited.outcome == HANDED_BACK:
        return [_handed_back(run, command.at, exited.reason)]
    if exited.outcome in (LOST, STOPPED):
        return _lost(run, at, command.at, exited.reason, exited.counts, command.got_further)
    return _failed(run, at, command.at, exited.reason, exited.counts)


def _placement_end(run: Run, command: RecordPlacementEnd) -> list[Fact]:
    """The word of a launcher about a worker that recorded no exit itself."""
    at, stop = command.at, command.stop
    if run.phase in ENDED or command.attempt != run.attempt:
        return []
    if run.phase in (SUBMITTED, QUEUED):
        # Nothing of it ran. The launcher tries again, unless somebody decided that it should not.
        wanted = stop.cause != CANCELLED_BY_OPERATOR
        return [] if wanted else _cancelled_there(run, at, stop, Counts())
    if stop.cause in (NODE_FAILED, ENGINE_CAUSE_UNSPECIFIED):
        return []  # its processes may still be there: the lease decides
    if run.phase == CANCELLING:
        return [_cancelled(run, at, run.reason, Counts())]
    return _engine_stop(run, at, at, stop, Counts(), command.got_further)


def _cancelled_there(run: Run, at: int, stop: EngineStop, counts: Counts) -> list[Fact]:
    """Cancelled by somebody on the engine, without a request to Runspine."""
    requested = RunCancelRequested(requested_by=f"{stop.engine} {stop.placement}", reason=stop.reason)
    return [Fact(at=at, run_cancel_requested=requested), _cancelled(run, at, stop.reason, counts)]


def _engine_stop(
    run: Run, at: int, now: int, stop: EngineStop, counts: Counts, got_further: bool
) -> list[Fact]:
    """The engine ended the worker: what follows depends on why."""
    if stop.cause == CANCELLED_BY_OPERATOR:
        return _cancelled_there(run, at, stop, counts)
    if stop.cause in (PREEMPTED, ENGINE_REQUEUED, ENGINE_CAUSE_UNSPECIFIED):
        return [_handed_back(run, now, stop.reason)]
    if stop.cause == TIME_LIMIT and not got_further:
        # Another attempt would come as far as this one.
        remedy = "no checkpoint in that time. Raise the pool's time limit, or checkpoint more often"
        return _failed(run, at, now, f"{stop.reason}, and {remedy}", counts)
    return _lost(run, at, now, stop.reason, counts, got_further)


def _failed(run: Run, at: int, now: int, reason: str, counts: Counts) -> list[Fact]:
    """The trainer failed: requeue while the spec allows another attempt."""
    if run.failures + 1 < max(1, run.spec.retry.max_attempts):
        wait = min(run.spec.retry.backoff_seconds * 2**run.failures, MAX_BACKOFF_SECONDS)
        return [_requeued(run, now, reason, not_before=now + int(wait * 1e6), lost=False)]
    return [Fact(at=at, run_failed=RunFailed(attempt=run.attempt, reason=reason, counts=counts))]


def _lost(run: Run, at: int, now: int, reason: str, counts: Counts, got_further: bool) -> list[Fact]:
    """The attempt was lost with its worker: requeue, at most MAX_LOSSES times without a new checkpoint."""
    if run.phase == CANCELLING:
        return [_cancelled(run, at, run.reason, counts)]
    if got_further or run.fruitless_losses < MAX_LOSSES:
        return [_requeued(run, now, reason, not_before=now, lost=True, got_further=got_further)]
    reason = f"lost {run.fruitless_losses + 1} times with its worker without a new checkpoint, last: {reason}"
    return [Fact(at=at, run_failed=RunFailed(attempt=run.attempt, reason=reason, counts=counts))]


def _handed_back(run: Run, now: int, reason: str) -> Fact:
    """A worker that was stopped returned the run: requeue it, at no cost."""
    requeued = RunRequeued(attempt=run.attempt + 1, reason=reason, not_before=now, handed_back=True)
    return Fact(at=now, run_requeued=requeued)


def _set_priority(run: Run, at: int, priority: int, by: str) -> list[Fact]:
    if run.phase in ENDED:
        raise RunRefusedError(f"run {run.id} is {Phase.Name(run.phase)}: its priority no longer matters")
    if priority == run.priority:
        return []
    return [Fact(at=at, run_priority_changed=RunPriorityChanged(priority=priority, changed_by=by))]


def _started(at: int, attempt: int, worker_id: str) -> Fact:
    return Fact(at=at, run_started=RunStarted(attempt=attempt, worker_id=worker_id))


def _cancelled(run: Run, at: int, reason: str, counts: Counts) -> Fact:
    return Fact(at=at, run_cancelled=RunCancelled(attempt=run.attempt, reason=reason, counts=counts))


def _requeued(
    run: Run, at: int, reason: str, *, not_before: int, lost: bool, got_further: bool = False
) -> Fact:
    requeued = RunRequeued(
        attempt=run.attempt + 1, reason=reason, not_before=not_before, lost=lost, got_further=got_further
    )
    return Fact(at=at, run_requeued=requeued)
