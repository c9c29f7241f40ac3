"""One sentence on why a run waits, from what the orchestrator shows of it, its pool and the workers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from runspine.domain.defaults import DEFAULT_POOL
from runspine.domain.run.evolve import ENDED
from runspine.domain.run.rest import rests
from runspine.wire.v1.run_pb2 import (
    CANCELLING,
    QUARANTINED,
    QUEUED,
    RUNNING,
    STALE,
    SUBMITTED,
    Phase,
    Run,
    Worker,
)

_WAITS = "waits: "


def why(run: Run, workers: Sequence[Worker], ahead: int, now: int) -> str:
    """Why the run is not training, or that it is. `ahead` counts runs of its pool that are served first."""
    if run.phase in ENDED:
        return f"it has ended: {Phase.Name(run.phase)}{_because(run.reason)}"
    held = {
        QUARANTINED: f"no decision is made on it{_because(run.reason)}: see runspine events quarantined",
        RUNNING: f"it does not wait: worker {run.worker_id} trains it",
        STALE: f"worker {run.worker_id} has sent no heartbeat since {_time(run.last_heard)}; the run is "
        "queued again when its lease has lapsed, unless the worker comes back",
        CANCELLING: "it is being cancelled, and waits for the last word of its worker",
        SUBMITTED: "it was accepted a moment ago and is not queued yet",
    }
    if run.phase != QUEUED:
        return held[run.phase]
    if rests(run, now):
        at = _time(run.not_before)
        return f"its attempt {run.attempt - 1} failed, and the next begins at {at}{_because(run.reason)}"
    return _why_queued(run, workers, ahead)


def _why_queued(run: Run, workers: Sequence[Worker], ahead: int) -> str:
    pool = run.spec.pool or DEFAULT_POOL
    serving = [worker for worker in workers if pool in worker.pools]
    online = [worker for worker in serving if worker.online]
    if not serving:
        return f"no worker has ever served pool {pool!r}: start one, or see that the pool's launcher runs"
    if not online:
        newest = max(serving, key=lambda worker: worker.last_heard)
        at = _time(newest.last_heard)
        return f"every worker of pool {pool!r} is offline; {newest.id} was the last, at {at}"
    if unfit := _too_large(run, online, pool):
        return unfit
    able = [
        w for w in online if any(each.name == run.spec.runner and not each.not_ready for each in w.runners)
    ]
    if run.spec.runner and not able:
        return f"no worker of pool {pool!r} that is online can run {run.spec.runner!r}: see runspine runners"
    free = sum(max(0, worker.slots - len(worker.running)) for worker in online)
    if not free:
        slots = sum(worker.slots for worker in online)
        return (
            f"all {slots} slots of pool {pool!r} are taken, and {_runs(ahead)} {_are(ahead)} served before it"
        )
    if _WAITS in run.reason:
        return f"workers have room and do not take it: {run.reason.partition(_WAITS)[2]}"
    if ahead:
        return f"{_runs(ahead)} of pool {pool!r} {_are(ahead)} served before it, by priority and then by time"
    return f"it is the next of pool {pool!r}, and a worker has room: it is about to start"


def _too_large(run: Run, online: Sequence[Worker], pool: str) -> str:
    limits = run.spec.limits
    for name, asked, most in (
        ("GPUs", run.spec.gpus, max(len(worker.capacity.gpus) for worker in online)),
        ("MiB of memory", limits.memory_mib, max(worker.capacity.memory_mib for worker in online)),
        ("cores", limits.cpus, max(worker.capacity.cpus for worker in online)),
    ):
        if asked > most:
            return (
                f"it asks for {asked:,g} {name}, and the largest worker of pool {pool!r} online has {most:,g}"
            )
    return ""


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%H:%M:%S UTC")
