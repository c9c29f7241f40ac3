"""Placements to start and to stop. Pure and idempotent: with its result carried out, the next plan is
empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.wire.v1.facts_pb2 import CANCELLED_BY_OPERATOR
from runspine.wire.v1.run_pb2 import Run

MIN_PAUSE_SECONDS = 5.0
MAX_PAUSE_SECONDS = 300.0

Key = tuple[str, int]


@dataclass(slots=True)
class LaunchHistory:
    """Earlier launches and idle placements; losing it costs time, never correctness."""

    # By attempt: number of launches, and the time of the last.
    launches: dict[Key, tuple[int, float]] = field(default_factory=dict)
    # By placement: since when no run needs it.
    idle: dict[str, float] = field(default_factory=dict)

    def note(self, key: Key, now: float) -> None:
        self.launches[key] = (self.launches.get(key, (0, 0.0))[0] + 1, now)

    def may_launch(self, key: Key, now: float) -> bool:
        """Whether the pause since the last launch is over."""
        count, last = self.launches.get(key, (0, 0.0))
        return count == 0 or now - last >= pause_after(count)

    def forget(self, needed: set[Key], placements: set[str]) -> None:
        self.launches = {key: each for key, each in self.launches.items() if key in needed}
        self.idle = {name: since for name, since in self.idle.items() if name in placements}


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Runs to launch, and placements to cancel."""

    launch: list[Run]
    cancel: list[Placement]


def pause_after(tries: int) -> float:
    return min(MIN_PAUSE_SECONDS * 2.0 ** min(tries - 1, 10), MAX_PAUSE_SECONDS)


def plan_launches(
    waiting: list[Run],
    open_runs: Mapping[str, Run],
    placements: Iterable[Placement],
    history: LaunchHistory,
    *,
    limit: int,
    grace: float,
    now: float,
) -> LaunchPlan:
    placements = list(placements)
    live = [each for each in placements if each.state in (PlacementState.WAITING, PlacementState.RUNNING)]
    taken = {(placement.run_id, placement.attempt) for placement in live}
    cancel = [placement for placement in live if _is_unneeded(placement, open_runs, history, grace, now)]
    cancel += [
        placement
        for placement in placements
        if placement.state is PlacementState.REQUEUED and not _may_serve_again(placement, open_runs, taken)
    ]
    # Somebody cancelled its placement: the orchestrator is about to cancel the run.
    stopped = {
        (each.run_id, each.attempt)
        for each in placements
        if each.stop is not None and each.stop.cause == CANCELLED_BY_OPERATOR
    }
    taken |= stopped
    room = limit - len(live)
    launch: list[Run] = []
    for run in waiting:
        key = (run.id, run.attempt)
        if len(launch) < room and key not in taken and history.may_launch(key, now):
            launch.append(run)
    history.forget({(run.id, run.attempt) for run in waiting}, {placement.name for placement in live})
    return LaunchPlan(launch, cancel)


def _is_unneeded(
    placement: Placement, open_runs: Mapping[str, Run], history: LaunchHistory, grace: float, now: float
) -> bool:
    """Whether a placement is to be cancelled. A running one gets time to upload its files."""
    run = open_runs.get(placement.run_id)
    if run is not None and run.attempt <= placement.attempt:
        history.idle.pop(placement.name, None)
        return False
    since = history.idle.setdefault(placement.name, now)
    return placement.state is PlacementState.WAITING or now - since >= grace


def _may_serve_again(placement: Placement, open_runs: Mapping[str, Run], taken: set[Key]) -> bool:
    """Whether a placement that the engine has requeued may serve the run's next attempt."""
    run = open_runs.get(placement.run_id)
    return run is not None and (run.id, run.attempt) not in taken
