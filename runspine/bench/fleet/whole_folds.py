"""The orchestrator's answers as folds over everything: what its indexes are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runspine.domain.run.attempts import find_attempt
from runspine.domain.run.pool import pool_of
from runspine.domain.run.rest import rests
from runspine.services.orchestrator.core.indexes.fleet import MachineSize
from runspine.wire.v1.run_pb2 import QUEUED, AttemptHistory, Run, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec


def waiting_runs(
    runs: Iterable[Run], attempts: Mapping[str, AttemptHistory], now: int
) -> dict[str, list[Run]]:
    """Queued runs without a claim, by pool, in order of priority and then of time."""
    pools: dict[str, list[Run]] = {}
    for run in runs:
        if run.phase != QUEUED or rests(run, now):
            continue
        history = attempts.get(run.id)
        if history is not None and find_attempt(history, run.attempt) is not None:
            continue
        pools.setdefault(pool_of(run), []).append(run)
    for queue in pools.values():
        queue.sort(key=lambda run: (-run.priority, run.queued_at, run.id))
    return pools


def known_runners(installed: Mapping[str, RunnerInfo], workers: Iterable[Worker]) -> dict[str, RunnerInfo]:
    """Every known runner by name, with the envs of all ready workers."""
    workers = list(workers)
    known = dict(installed)
    for worker in workers:
        for info in worker.runners:
            if info.name not in known or (worker.online and not info.not_ready):
                known[info.name] = info
    return {name: _with_envs(info, workers) for name, info in known.items()}


def _with_envs(info: RunnerInfo, workers: list[Worker]) -> RunnerInfo:
    ready = [
        reported
        for worker in workers
        for reported in worker.runners
        if worker.online and reported.name == info.name and not reported.not_ready
    ]
    if not info.open_envs:
        return info
    merged = RunnerInfo()
    merged.CopyFrom(info)
    del merged.envs[:]
    if ready and all(reported.envs for reported in ready):
        merged.envs.extend(sorted({env for reported in ready for env in reported.envs}))
    return merged


def fitting_workers(spec: RunSpec, workers: Iterable[Worker], held: Mapping[str, int]) -> list[str]:
    """Workers that may claim the run and have its runner: ready ones first, then those with a free slot."""
    found = [
        (bool(info.not_ready), held.get(worker.id, 0) >= worker.slots, worker.id)
        for worker in workers
        if worker.online and spec.pool in worker.pools
        for info in worker.runners
        if info.name == spec.runner
        and (not worker.HasField("capacity") or MachineSize.of(worker.capacity).fits(spec))
    ]
    return [worker_id for _, _, worker_id in sorted(found)]
