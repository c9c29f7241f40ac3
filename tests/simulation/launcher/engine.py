"""A model of an engine that runs workers for single runs, as Kubernetes does with Jobs.

A Job is named by run, attempt and try: a second one of the same name is refused, which the launcher takes for
launched. What a launcher is shown lags a little. A pod that is gone leaves nothing behind, not even a disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.services.launcher.engines.job import job_name
from runspine.services.launcher.engines.port import EngineAwayError
from runspine.wire.v1.run_pb2 import Run
from tests.simulation.world import World

CALL_SECONDS = (0.002, 0.05)
PLACE_SECONDS = (0.05, 1.5)
# How far behind a launcher's view of the Jobs is, and how far after a watch has broken.
LAG_SECONDS = (0.0, 0.4)
BEHIND_SECONDS = (1.0, 6.0)
TERMINATION_SECONDS = 1.0
AWAY_SHARE = 0.6

Work = Callable[[Run, int], Coroutine[Any, Any, None]]


@dataclass(eq=False, slots=True)
class Job:
    """One Job, with the instants at which it changed."""

    name: str
    run: Run
    tries: int
    created: float
    running: float | None = None
    over: float | None = None
    deleted: float | None = None

    @property
    def worker(self) -> str:
        return f"pod-{self.name[-12:]}"

    def shown(self, at: float) -> Placement | None:
        """The Job as it was at an instant."""
        if self.created > at or (self.deleted is not None and self.deleted <= at):
            return None
        state = PlacementState.WAITING
        if self.running is not None and self.running <= at:
            state = PlacementState.RUNNING
        if self.over is not None and self.over <= at:
            state = PlacementState.OVER
        return Placement(self.name, self.run.id, self.run.attempt, state)


class Engine:
    """All Jobs of a schedule."""

    def __init__(self, world: World, work: Work) -> None:
        self.world = world
        self.work = work
        self.jobs: dict[str, Job] = {}
        self.away = False
        self.behind = False

    @property
    def left(self) -> list[Job]:
        """Jobs that are neither over nor deleted."""
        return [job for job in self.jobs.values() if job.over is None and job.deleted is None]

    def create(self, run: Run, tries: int) -> None:
        name = job_name(run, tries)
        if name in self.jobs and self.jobs[name].deleted is None:
            self.world.reach("engine.exists_already")
            return
        copy = Run()
        copy.CopyFrom(run)
        made = self.jobs[name] = Job(name, copy, tries, self.world.loop.now)
        self.world.reach("engine.launched" if tries == 1 else "engine.launched_again")
        self.world.loop.after(self.world.random.uniform(*PLACE_SECONDS), self._place, made)

    def _place(self, made: Job) -> None:
        if made.deleted is not None:
            return
        made.running = self.world.loop.now

        async def process() -> None:
            try:
                await self.work(made.run, made.tries)
            finally:
                self.world.loop.after(0.0, self.end, made)

        self.world.start(made.worker, process)

    def end(self, made: Job) -> None:
        """The pod is gone, with everything that ran in it."""
        if made.over is None:
            made.over = self.world.loop.now
            self.world.kill(made.worker)

    def delete(self, name: str) -> None:
        found = self.jobs.get(name)
        if found is None or found.deleted is not None:
            return
        found.deleted = self.world.loop.now
        self.world.reach("engine.cancelled")
        if found.running is not None:
            self.world.loop.after(TERMINATION_SECONDS, self.end, found)

    # Faults.

    def evict(self, chance: Random) -> str:
        """A node goes away with its pods."""
        running = [job for job in self.left if job.running is not None]
        if not running:
            return "no_pod_to_evict"
        self.end(chance.choice(running))
        return "pod_evicted"

    def freeze(self, chance: Random) -> str:
        """A pod hangs, also for longer than its lease."""
        nodes = [self.world.nodes[job.worker] for job in self.left if job.running is not None]
        nodes = [node for node in nodes if node.alive and not node.frozen]
        if not nodes:
            return "no_pod_to_freeze"
        node, seconds, now = chance.choice(nodes), chance.uniform(1.0, 22.0), self.world.loop.now
        self.world.loop.freeze(node, seconds)
        self.world.away.append((node.name, now, now + seconds))
        return "pod_frozen"

    def go_away(self, chance: Random) -> str:
        """The API answers some calls with an error, whether it has carried them out or not."""
        self.away = True
        self.world.loop.after(chance.uniform(0.5, 8.0), setattr, self, "away", False)
        return "engine_away"

    def fall_behind(self, chance: Random) -> str:
        """What launchers are shown is seconds old."""
        self.behind = True
        self.world.loop.after(chance.uniform(1.0, 8.0), setattr, self, "behind", False)
        return "engine_behind"


class ModelLauncher:
    """The Launcher port of one launcher process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._random = engine.world.random

    def _seen(self) -> list[tuple[Job, Placement]]:
        lag = self._random.uniform(*(BEHIND_SECONDS if self._engine.behind else LAG_SECONDS))
        at = self._engine.world.loop.now - lag
        shown = [(job, job.shown(at)) for job in self._engine.jobs.values()]
        return [(job, placement) for job, placement in shown if placement is not None]

    async def _call(self, work: Callable[[], None]) -> None:
        """One call of the API: carried out or not, answered or not."""
        await asyncio.sleep(self._random.uniform(*CALL_SECONDS))
        failing = self._engine.away and self._random.random() < AWAY_SHARE
        if not failing or self._random.random() < 0.5:
            work()
        await asyncio.sleep(self._random.uniform(*CALL_SECONDS))
        if failing:
            self._engine.world.reach("engine.away")
            raise EngineAwayError("503 Service Unavailable")

    async def launch(self, run: Run) -> None:
        same = (run.id, run.attempt)
        tries = [job.tries for job, _ in self._seen() if (job.run.id, job.run.attempt) == same]
        number = max(tries, default=0) + 1
        await self._call(lambda: self._engine.create(run, number))

    async def cancel(self, placement: Placement) -> None:
        await self._call(lambda: self._engine.delete(placement.name))

    async def placements(self) -> list[Placement]:
        if self._engine.away and self._random.random() < AWAY_SHARE:
            raise EngineAwayError("the watch has ended")
        return [placement for _, placement in self._seen()]

    async def close(self) -> None:
        """Nothing to close."""
