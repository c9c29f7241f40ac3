"""Sizes of the report: how much each part measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """`limits` are messages of 1 KB; `jobs` are Ray's, each takes seconds; `points` and the like grow."""

    runs_in_turn: int
    limits: int
    jobs: int
    runs: tuple[int, ...]
    burst: int
    facts: tuple[int, ...]
    trainer_rounds: int
    iterations: int
    rounds: int
    steps: int
    peer_seconds: float
    flow_seconds: float
    workers: tuple[int, ...]
    worker_steps: int
    points: tuple[int, ...]
    frame_iterations: int
    frame_seconds: float
    stored_steps: int
    fleet_workers: tuple[int, ...]
    fleet_runs: tuple[int, ...]
    ended_runs: tuple[int, ...]
    # Workers whose runs end at once, and runs.
    drained: tuple[int, int]


def _tens(first: int, last: int) -> tuple[int, ...]:
    return tuple(10**n for n in range(first, last + 1))


SIZES = {
    # A quarter of an hour on two idle cores; each part stays below eight minutes.
    "full": Sizes(
        runs_in_turn=100, limits=4_000, jobs=10, runs=_tens(0, 3), burst=20, facts=_tens(3, 6),
        trainer_rounds=9, iterations=300, rounds=3, steps=1_000_000, peer_seconds=3.0, flow_seconds=10.0,
        workers=(1, 2, 4, 8, 16), worker_steps=1_000_000, points=_tens(4, 8), frame_iterations=60,
        frame_seconds=10.0, stored_steps=2_000_000, fleet_workers=_tens(1, 4), fleet_runs=_tens(2, 5),
        ended_runs=_tens(3, 5), drained=(100, 1_000),
    ),
    # A few minutes.
    "quick": Sizes(
        runs_in_turn=30, limits=1_000, jobs=3, runs=_tens(0, 2), burst=4, facts=_tens(3, 5),
        trainer_rounds=3, iterations=40, rounds=1, steps=300_000, peer_seconds=1.0, flow_seconds=4.0,
        workers=(1, 2, 4, 8), worker_steps=200_000, points=_tens(4, 6), frame_iterations=10,
        frame_seconds=3.0,
        stored_steps=300_000, fleet_workers=_tens(1, 3), fleet_runs=_tens(2, 4), ended_runs=_tens(3, 4),
        drained=(50, 200),
    ),
    # A smoke test; its figures mean nothing.
    "tiny": Sizes(
        runs_in_turn=3, limits=50, jobs=1, runs=(1, 3), burst=0, facts=(100, 1_000),
        trainer_rounds=1, iterations=4, rounds=1, steps=10_000, peer_seconds=0.1, flow_seconds=1.5,
        workers=(1, 2), worker_steps=4_000, points=(1_000, 10_000),
        frame_iterations=2, frame_seconds=0.5, stored_steps=20_000, fleet_workers=(2, 4),
        fleet_runs=(10, 20), ended_runs=(10, 20), drained=(2, 4),
    ),
}  # fmt: skip
