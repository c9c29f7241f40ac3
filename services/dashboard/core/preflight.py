"""What stands between a run and its start: a checklist for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec

GOOD, KNOW, BAD = "good", "know", "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """`bad` keeps the run from being launched; `know` does not."""

    level: str
    text: str


def preflight(
    info: RunnerInfo,
    workers: Sequence[Worker],
    spec: RunSpec | None,
    flaws: Sequence[str],
    notices: Sequence[str],
) -> list[Check]:
    """Flaws and notices are what the orchestrator said; the rest is seen from the fleet."""
    checks = [Check(BAD, flaw) for flaw in flaws]
    checks.append(_runner(info))
    if spec is not None:
        checks.append(_pool(spec.pool or "default", workers))
        checks.append(_gpu(info, spec, workers))
    if info.services:
        checks.append(Check(KNOW, f"It needs {', '.join(info.services)}."))
    if info.datasets:
        checks.append(Check(KNOW, f"It trains on datasets: {', '.join(info.datasets)}."))
    told = {check.text for check in checks}
    checks += [Check(KNOW, notice) for notice in notices if notice not in told]
    return sorted(checks, key=lambda check: (BAD, KNOW, GOOD).index(check.level))


def may_launch(checks: Sequence[Check]) -> bool:
    return all(check.level != BAD for check in checks)


def _runner(info: RunnerInfo) -> Check:
    if info.not_ready:
        return Check(BAD, f"Runner {info.name} is not ready: {info.not_ready}")
    return Check(GOOD, f"Runner {info.name} is ready; its packages are there.")


def _pool(pool: str, workers: Sequence[Worker]) -> Check:
    able = [worker for worker in workers if worker.online and pool in worker.pools]
    if not able:
        return Check(KNOW, f"No worker serves pool {pool} now: the run will wait for one.")
    free = sum(max(0, worker.slots - len(worker.running)) for worker in able)
    if not free:
        return Check(KNOW, f"All slots of pool {pool} are busy: the run will wait its turn.")
    return Check(GOOD, f"Pool {pool} has {free} free slot{'' if free == 1 else 's'}.")


def _gpu(info: RunnerInfo, spec: RunSpec, workers: Sequence[Worker]) -> Check:
    most = max((len(worker.capacity.gpus) for worker in workers if worker.online), default=0)
    needed = spec.gpus or (1 if info.needs_gpu else 0)
    if needed > most:
        return Check(
            KNOW, f"It needs {needed} GPU{'' if needed == 1 else 's'}; no worker has as many: it will wait."
        )
    if needed:
        return Check(GOOD, f"A worker has the {needed} GPU{'' if needed == 1 else 's'} it needs.")
    return Check(GOOD, "It needs no GPU.")
