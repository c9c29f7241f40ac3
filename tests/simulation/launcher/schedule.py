"""Schedules of the launcher: two of them start a worker for each run, on a model of Kubernetes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ATTEMPTS, BEATS, RUNS, TELEMETRY
from runspine.services.launcher.core.runs import OpenRuns
from runspine.services.launcher.edges.reconciler import PoolReconciler
from runspine.services.launcher.edges.reports import PlacementReports
from runspine.services.launcher.pools import Pool
from runspine.services.worker.process.sandbox import find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.worker import Worker
from runspine.storage.file_blobs import FileBlobs
from runspine.tasks import run_together
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.simulation.control import CLIENTS, IN_FLIGHT, ControlPlane, run_plane
from tests.simulation.faults import Faults, Process
from tests.simulation.hosts import RUNNER, SimulatedRunner
from tests.simulation.launcher.engine import Engine, ModelLauncher
from tests.simulation.nats.in_flight import InFlightFaults
from tests.simulation.plan import Plan
from tests.simulation.world import World, here, settings_of

LAUNCHERS = ("launcher-1", "launcher-2")
POOL = "cluster"
LIMIT = 6
GRACE_SECONDS = 4.0
RECONCILE_SECONDS = 0.5
# How long Jobs that no run needs may be left when all runs have ended.
LEFT_SECONDS = 40.0


class LaunchedPlane(ControlPlane):
    """The processes of one schedule: no worker runs until a launcher has started it."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.engine = Engine(world, self.pod)
        self.only_beats = False
        self.launchers = world.mix.processes(LAUNCHERS)

    def spec(self, number: int) -> RunSpec:
        spec = super().spec(number)
        spec.pool = POOL
        return spec

    async def main(self) -> None:
        for name in self.orchestrators:
            self.world.start(name, self.orchestrator)
        for name in self.launchers:
            self.world.start(name, self.launcher)
        for name in CLIENTS[: self.calling]:
            self.world.start(name, self.client)
        self.world.on_kill = self.killed
        self._plan_faults(
            {
                **dict.fromkeys(self.orchestrators, self.orchestrator),
                **dict.fromkeys(self.launchers, self.launcher),
            }
        )
        await self._calls_end()
        await self._jobs_end()
        self._verify()

    def _plan_faults(self, processes: dict[str, Process]) -> None:
        faults, engine = Faults(self.world, processes, restart=list(processes)), self.engine
        faults.add(engine.evict, engine.evict, engine.freeze, engine.go_away, engine.fall_behind)
        faults.add(faults.clock_jumps, faults.lag, *InFlightFaults(self.world, IN_FLIGHT).kinds())
        faults.plan(0.2, self.fault_seconds)

    async def _jobs_end(self) -> None:
        """Jobs that no run needs are cancelled or come to their end."""
        until = self.world.loop.now + LEFT_SECONDS
        while self.engine.left and not self.world.problems:
            if self.world.loop.now > until:
                names = ", ".join(job.name for job in self.engine.left)
                self.world.problem(f"jobs are left after every run has ended: {names}")
            await asyncio.sleep(1.0)

    async def launcher(self) -> None:
        """As `python -m runspine.services.launcher`; started again."""
        while True:
            try:
                await self._launch()
            except NatsUnreachableError:
                self.world.reach("launcher.started_again")
            await asyncio.sleep(1.0)

    async def _launch(self) -> None:
        async with self.world.connected("launcher") as connected:
            await wait_for_streams(connected.link, RUNS, ATTEMPTS, timeout=float("inf"))
            runs = OpenRuns()
            projector = Projector(connected.log, None, runs)
            await projector.start()
            pool = settings_of(Pool, limit=LIMIT, grace_seconds=GRACE_SECONDS)
            launcher = ModelLauncher(self.engine)
            reconciler = PoolReconciler(
                POOL, pool, launcher, runs, projector, RECONCILE_SECONDS, PlacementReports(None)
            )
            await run_together(projector.follow(RUNS), projector.follow(ATTEMPTS), reconciler.run())

    async def pod(self, run: Run, _: int) -> None:
        """The worker of one run, as a Job starts it."""
        settings = settings_of(
            WorkerSettings,
            worker_id=here(),
            worker_dir=Path(here()),
            worker_only_run=run.id,
            worker_pools=POOL,
            worker_slots=1,
            system_seconds=0,
            progress_seconds=2.0,
            **self.shared_settings(),
        )
        async with self.world.connected("worker") as connected:
            link, log = connected.link, connected.log
            await wait_for_streams(link, RUNS, ATTEMPTS, TELEMETRY, BEATS, timeout=float("inf"))
            runners: Any = {RUNNER: SimulatedRunner()}
            bare = find_sandbox("off", SandboxPolicy(settings.worker_dir))
            files = FileBlobs(settings)
            await Worker(settings, link, log, connected.publisher, files, runners, bare).serve()

    def killed(self, name: str) -> None:
        """A pod's processes end with it, whatever their state."""
        self.exchange.killed(self.world.nodes[name])
        self.hosts.worker_killed(name, at_once=name.startswith("pod-"))


def run_launcher_schedule(plan: Plan, trace: bool = False) -> World:
    """One schedule of the launcher."""
    world = World(plan, trace=trace)
    return run_plane(world, LaunchedPlane(world))
