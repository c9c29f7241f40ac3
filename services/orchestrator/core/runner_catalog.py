"""Runners of the fleet, merged from what each worker reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo


def known_runners(installed: Mapping[str, RunnerInfo], workers: Iterable[Worker]) -> dict[str, RunnerInfo]:
    """Every known runner by name, preferably as an online worker with the runner ready reports it."""
    workers = list(workers)
    known = dict(installed)
    for worker in workers:
        for info in worker.runners:
            if info.name not in known or (worker.online and not info.not_ready):
                known[info.name] = info
    return {name: _with_envs(info, workers) for name, info in known.items()}


def _with_envs(info: RunnerInfo, workers: list[Worker]) -> RunnerInfo:
    """The runner with the envs of all ready workers; without a list when one of them reports none."""
    ready = [
        reported
        for worker in workers
        for reported in worker.runners
        if worker.online and reported.name == info.name and not reported.not_ready
    ]
    if not info.open_envs:
        return info  # its list of envs is the same on every worker
    merged = RunnerInfo()
    merged.CopyFrom(info)
    del merged.envs[:]
    if ready and all(reported.envs for reported in ready):
        merged.envs.extend(sorted({env for reported in ready for env in reported.envs}))
    return merged
