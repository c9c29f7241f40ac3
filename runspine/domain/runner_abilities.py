"""What a runner can do for one of its algorithms. Pure."""

from __future__ import annotations

from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo


def algo_of(info: RunnerInfo, algo: str) -> AlgoInfo | None:
    return next((each for each in info.algos if each.name == algo), None)


def can_warm_start(info: RunnerInfo, algo: str) -> bool:
    """Whether the algorithm can begin with another run's checkpoint; as its runner when it states nothing."""
    known = algo_of(info, algo)
    return known.warm_starts if known is not None and known.HasField("warm_starts") else info.warm_starts


def warm_start_subject(info: RunnerInfo, algo: str) -> str:
    """Which part of a runner cannot start warm: all of it, or one algorithm."""
    return f"{algo} of runner {info.name}" if info.warm_starts else f"runner {info.name}"
