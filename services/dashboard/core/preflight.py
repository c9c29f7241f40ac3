"""Checks before a run is launched, as a list for the form. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runspine.domain.defaults import DEFAULT_POOL
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_READY, PREFLIGHT_UNKNOWN, Preflight
from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec

OK, NOTICE, ERROR = "ok", "notice", "error"


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """One line of the checklist; level ERROR prevents the launch, NOTICE does not."""

    level: str
    text: str


def preflight(
    info: RunnerInfo,
    workers: Sequence[Worker],
    spec: RunSpec | None,
    violations: Sequence[str],
    notices: Sequence[str],
    launch: Preflight | None = None,
) -> list[PreflightCheck]:
    """Violations, notices and the launch check come from the orchestrator's Validate; the rest from the
    fleet."""
    checks = [PreflightCheck(ERROR, violation) for violation in violations]
    checks.append(_runner(info))
    if spec is not None:
        checks.append(_pool(spec.pool or DEFAULT_POOL, workers))
        checks.append(_gpu(info, spec, workers))
        checks += _launch(launch)
    if info.services:
        checks.append(PreflightCheck(NOTICE, f"Requires services: {', '.join(info.services)}."))
    if info.datasets:
        checks.append(PreflightCheck(NOTICE, f"Trains on datasets: {', '.join(info.datasets)}."))
    listed = {check.text for check in checks}
    checks += [PreflightCheck(NOTICE, notice) for notice in notices if notice not in listed]
    return sorted(checks, key=lambda check: (ERROR, NOTICE, OK).index(check.level))


def may_launch(checks: Sequence[PreflightCheck]) -> bool:
    return all(check.level != ERROR for check in checks)


def _runner(info: RunnerInfo) -> PreflightCheck:
    if info.not_ready:
        return PreflightCheck(ERROR, f"Runner {info.name} is not ready: {info.not_ready}")
    return PreflightCheck(OK, f"Runner {info.name} is ready; its packages are installed.")


def _launch(launch: Preflight | None) -> list[PreflightCheck]:
    if launch is None or launch.state not in (PREFLIGHT_READY, PREFLIGHT_UNKNOWN):
        return []
    if launch.state == PREFLIGHT_UNKNOWN:
        return [PreflightCheck(NOTICE, f"Whether it would start is not known: {launch.reason}.")]
    return [PreflightCheck(OK, f"Worker {launch.worker_id} has tried the launch and would start it.")]


def _pool(pool: str, workers: Sequence[Worker]) -> PreflightCheck:
    serving = [worker for worker in workers if worker.online and pool in worker.pools]
    if not serving:
        return PreflightCheck(NOTICE, f"No worker serves pool {pool} now: the run will wait for one.")
    free = sum(max(0, worker.slots - len(worker.running)) for worker in serving)
    if not free:
        return PreflightCheck(NOTICE, f"All slots of pool {pool} are busy: the run will be queued.")
    return PreflightCheck(OK, f"Pool {pool} has {free} free slot{'' if free == 1 else 's'}.")


def _gpu(info: RunnerInfo, spec: RunSpec, workers: Sequence[Worker]) -> PreflightCheck:
    available = max((len(worker.capacity.gpus) for worker in workers if worker.online), default=0)
    needed = spec.gpus or (1 if info.needs_gpu else 0)
    if needed > available:
        return PreflightCheck(
            NOTICE,
            f"The run needs {needed} GPU{'' if needed == 1 else 's'}; no worker has that many: it will wait.",
        )
    if needed:
        return PreflightCheck(OK, f"A worker has the required {needed} GPU{'' if needed == 1 else 's'}.")
    return PreflightCheck(OK, "No GPU required.")
