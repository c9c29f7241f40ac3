"""What the fleet offers: the word of all workers on each runner, taken together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo


def offered(installed: Mapping[str, RunnerInfo], workers: Iterable[Worker]) -> dict[str, RunnerInfo]:
    """Every runner that is known, as a worker that is online and ready has it."""
    workers = list(workers)
    known = dict(installed)
    for worker in workers:
        for info in worker.runners:
            if info.name not in known or (worker.online and not info.not_ready):
                known[info.name] = info
    return {name: _with_envs(info, workers) for name, info in known.items()}


def _with_envs(info: RunnerInfo, workers: list[Worker]) -> RunnerInfo:
    """An env is unknown only when every worker that is ready says which it knows, and none has it."""
    ready = [
        said
        for worker in workers
        for said in worker.runners
        if worker.online and said.name == info.name and not said.not_ready
    ]
    if not info.open_envs:
        return info  # a list of its own, the same everywhere
    merged = RunnerInfo()
    merged.CopyFrom(info)
    del merged.envs[:]
    if ready and all(said.envs for said in ready):
        merged.envs.extend(sorted({env for said in ready for env in said.envs}))
    return merged
