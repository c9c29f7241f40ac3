"""Schedules of the control plane: two orchestrators, two workers, clients with keys, under faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import grpc

from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.eventlog.streams import ensure_streams, wait_for_streams
from runspine.eventlog.subjects import ATTEMPTS, BEATS, RUNS, TELEMETRY, WORK
from runspine.notice.book import NoticeBook
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.leases import LeaseTimeouts
from runspine.services.orchestrator.edges.cache_requests import CacheRequests
from runspine.services.orchestrator.edges.launch_checks import LaunchChecks
from runspine.services.orchestrator.edges.notice_calls import NoticeCalls
from runspine.services.orchestrator.edges.offers import OfferStream
from runspine.services.orchestrator.edges.run_processes import RunProcesses
from runspine.services.orchestrator.edges.scheduler import Scheduler
from runspine.services.orchestrator.edges.trainer_service import TrainerCalls, TrainerServicer
from runspine.services.worker.process.sandbox import find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.worker import Worker
from runspine.storage.file_blobs import FileBlobs
from runspine.tasks import run_together
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.spec_pb2 import Retry, RunSpec
from tests.histories.callers import Caller, Meeting
from tests.histories.calls import Call
from tests.histories.recorder import RecordedStub
from tests.model.trace import ENDINGS
from tests.simulation.calls import Exchange, SimulatedStub
from tests.simulation.faults import Faults, Process
from tests.simulation.hosts import RUNNER, Hosts, SimulatedRunner, simulated_hosts
from tests.simulation.loop import StuckError
from tests.simulation.nats.in_flight import InFlightFaults
from tests.simulation.plan import Plan
from tests.simulation.s3.link import answering
from tests.simulation.verdict import Verdict
from tests.simulation.world import World, here, settings_of

ORCHESTRATORS = ("orchestrator-1", "orchestrator-2")
WORKERS = ("worker-1", "worker-2")
CLIENTS = ("client-1", "client-2", "client-3")
# Of short schedules and of long ones.
CLIENT_COUNTS = (2, 3)
CALLING_SECONDS = (1.5, 4.0)
FAULT_SECONDS = (3.0, 6.0)
VIRTUAL_SECONDS = 400.0
TIMEOUTS = LeaseTimeouts(4.0, 14.0)
# How often heartbeats that are not stored are all that happens, and for how long: beyond every lease.
BEATS_SHARE = 0.06
STALL_SECONDS = 20.0
# Parts of the subjects whose messages are lost or late.
IN_FLIGHT = ("runs", "attempts", "work", "ACK", "GET")
# More calls that may be refused, and more reads after them, than clients usually make.
CALLS = {"submit": 1.0, "again": 0.5, "get": 3.0, "list": 2.0, "priority": 2.5, "labels": 2.0, "cancel": 0.5}


class Recorded:
    """Calls, in memory."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def add(self, call: Call) -> None:
        self.calls.append(call)


class KeptMeeting(Meeting):
    """Keeps every request with a key: a client repeats those that were not answered."""

    def __init__(self, spec: Callable[[int], RunSpec]) -> None:
        super().__init__(spec)
        self.requests: list[wire.SubmitRequest] = []

    def new_request(self) -> wire.SubmitRequest:
        request = super().new_request()
        self.requests.append(request)
        return request


class SimulatedCaller(Caller):
    """A client that calls at random, on a simulated stub."""

    def __init__(self, meeting: Meeting, session: str, recording: Any, calls: Mapping[str, float]) -> None:
        super().__init__(meeting, "", session, recording, 0, calls=calls)

    async def call_once(self, stub: Any, chance: Random) -> None:
        self._chance = chance
        with contextlib.suppress(grpc.RpcError):
            await self._one(stub)


class ControlPlane:
    """The processes of one schedule."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exchange = Exchange(world)
        self.hosts = Hosts(world)
        self.recorded = Recorded()
        self.meeting = KeptMeeting(self.spec)
        self.long = not world.plan.short
        self.calling = CLIENT_COUNTS[self.long]
        self.fault_seconds = FAULT_SECONDS[self.long]
        self.submitted_again = False
        self.orchestrators = world.mix.processes(ORCHESTRATORS)
        self.workers = world.mix.processes(WORKERS)
        self.calls = world.mix.calls(CALLS) | {"submit": CALLS["submit"]}
        # All that happens is that no heartbeat is stored, for longer than a lease: no run may suffer.
        self.only_beats = world.plan.random("beats").random() < BEATS_SHARE

    def spec(self, number: int) -> RunSpec:
        return RunSpec(runner=RUNNER, seed=number, retry=Retry(max_attempts=2, backoff_seconds=0.1))

    async def main(self) -> None:
        for name in self.orchestrators:
            self.world.start(name, self.orchestrator)
        for name in self.workers:
            self.world.start(name, self.worker)
        for name in CLIENTS[: self.calling]:
            self.world.start(name, self.client)
        processes = {
            **dict.fromkeys(self.orchestrators, self.orchestrator),
            **dict.fromkeys(self.workers, self.worker),
        }
        self.world.on_kill = self.killed
        self._plan_faults(processes)
        await self._calls_end()
        self._verify()

    async def _calls_end(self) -> None:
        """Every client has made its calls, every key stands for a run, and every run has ended."""
        while self.calling and not self.world.problems:
            await asyncio.sleep(0.5)
        self.world.start("client-again", self.submit_again)
        while not self.submitted_again and not self.world.problems:
            await asyncio.sleep(0.5)
        await self._runs_end()

    def _verify(self) -> None:
        if self.world.problems:
            return
        verdict = Verdict(self.world, self.hosts, self.recorded.calls, TIMEOUTS.lost_after)
        verdict.check()
        if self.only_beats:
            verdict.check_undisturbed()

    def _plan_faults(self, processes: dict[str, Process]) -> None:
        faults = Faults(self.world, processes, restart=list(processes), long_share=0.25)
        if self.only_beats:
            chance = self.world.plan.random("stall")
            self.hosts.seconds = (STALL_SECONDS, STALL_SECONDS + 10.0)
            self.world.loop.after(chance.uniform(0.5, 1.5), faults.stall_beats, STALL_SECONDS)
            return
        faults.add(self._stop_a_reaper, self._stop_a_reaper)
        faults.add(lambda chance: faults.clock_ahead(chance, self.workers))
        faults.add(faults.clock_jumps, faults.beats_stall, faults.lag, faults.lag, faults.grant_twice)
        faults.add(*InFlightFaults(self.world, IN_FLIGHT).kinds())
        faults.plan(0.2, self.fault_seconds)

    def killed(self, name: str) -> None:
        self.exchange.killed(self.world.nodes[name])
        self.hosts.worker_killed(name)

    async def orchestrator(self) -> None:
        """As `python -m runspine.services.orchestrator`, without sockets and snapshots; started again."""
        while True:
            try:
                await self._orchestrate()
            except NatsUnreachableError:
                self.world.reach("orchestrator.started_again")
            await asyncio.sleep(1.0)

    async def _orchestrate(self) -> None:
        async with self.world.connected("orchestrator") as connected:
            link, log = connected.link, connected.log
            await ensure_streams(link, replicas=3)
            board = Board()
            projector = Projector(log, None, board)
            await projector.start()
            offers = OfferStream(link, connected.publisher, 2.0)
            scheduler = Scheduler(log, link, board, projector, offers, timeouts=TIMEOUTS, window=8)
            checks, caches = LaunchChecks(link, board), CacheRequests(link, log, board, projector)
            installed = {RUNNER: SimulatedRunner().info()}
            notices = NoticeCalls(log, NoticeBook(), projector)
            processes = RunProcesses(link)
            calls = TrainerCalls(
                log, board, projector, scheduler, installed, checks, caches, notices, processes
            )
            async with checks.open():
                self.exchange.serve(TrainerServicer(calls))
                await self._follow_and_decide(projector, scheduler)

    async def _follow_and_decide(self, projector: Projector, scheduler: Scheduler) -> None:
        await run_together(
            projector.follow(RUNS),
            projector.follow(ATTEMPTS),
            scheduler.follow_beats(),
            scheduler.run_reactions(),
            scheduler.run_leases(),
            scheduler.run_offers(),
        )

    async def worker(self) -> None:
        """As `python -m runspine.services.worker`."""
        settings = settings_of(
            WorkerSettings,
            worker_id=here(),
            worker_dir=Path(here()),
            worker_slots=3,
            system_seconds=0,
            progress_seconds=2.0,
            checkpoint_patience=5.0,
            upload_wait=5.0,
            **self.shared_settings(),
        )
        async with self.world.connected("worker") as connected:
            await wait_for_streams(
                connected.link, RUNS, ATTEMPTS, TELEMETRY, WORK, BEATS, timeout=float("inf")
            )
            blobs = FileBlobs(settings)
            runners = {RUNNER: SimulatedRunner()}
            bare = find_sandbox("off", SandboxPolicy(settings.worker_dir))
            worker = Worker(
                settings, connected.link, connected.log, connected.publisher, blobs, runners, bare
            )
            await worker.serve()

    def shared_settings(self) -> dict[str, Any]:
        return {"nats_url": self.world.cluster.url}

    async def client(self) -> None:
        """Calls at one orchestrator after the other; each is a session of its own."""
        session, chance = here(), self.world.plan.random(here())
        while not self.exchange.servicers:
            await asyncio.sleep(0.1)
        until = self.world.loop.now + CALLING_SECONDS[self.long]
        number = 0
        while self.world.loop.now < until:
            number += 1
            orchestrator = chance.choice(self.orchestrators)
            caller = SimulatedCaller(self.meeting, f"{session}.{number}", self.recorded, self.calls)
            stub = self._stub(orchestrator, f"{session}.{number}")
            for call in range(chance.randint(1, 8)):
                name = f"{session}.{number}.{call}"
                if self.world.takes(name):
                    await caller.call_once(stub, self.world.plan.random(name))
                await asyncio.sleep(chance.choice((0.0, 0.01, 0.2)))
        self.calling -= 1

    def _stub(self, orchestrator: str, session: str) -> Any:
        recording: Any = self.recorded
        return RecordedStub(
            SimulatedStub(self.exchange, orchestrator), recording, session, self.world.loop.time
        )

    async def submit_again(self) -> None:
        """Every key once more, until it is answered: which run it stands for must be known."""
        for request in self.meeting.requests:
            while True:
                stub = self._stub(
                    self.world.random.choice(self.orchestrators), f"again.{self.world.loop.now}"
                )
                try:
                    await stub.Submit(request)
                except grpc.RpcError:
                    await asyncio.sleep(0.2)
                else:
                    break
        self.submitted_again = True

    def _stop_a_reaper(self, chance: Random) -> str:
        """The next trainer's reaper is stopped, as by a debugger, and its worker is restarted soon."""
        loop, delay, pause = self.world.loop, chance.uniform(0.1, 2.0), chance.uniform(0.05, 2.0)
        self.hosts.on_stopped = lambda worker: loop.after(
            delay, self.world.restart, worker, pause, self.worker
        )
        return "reaper_stopped"

    async def _runs_end(self) -> None:
        """Every run comes to its end once the faults are over."""
        while not self.world.problems and (self.world.loop.now < self.fault_seconds or self._open_runs()):
            await asyncio.sleep(1.0)

    def _open_runs(self) -> list[str]:
        open_runs: dict[str, bool] = {}
        group = self.world.cluster.streams.get(RUNS)
        for one in group.store.order if group else ():
            if one.subject.startswith("runs."):
                kinds = [fact.WhichOneof("kind") for fact in Commit.FromString(one.data).facts]
                ended = any(kind in ENDINGS for kind in kinds)
                open_runs[one.subject] = open_runs.get(one.subject, True) and not ended
        return [subject for subject, is_open in open_runs.items() if is_open]


@contextlib.contextmanager
def own_directory() -> Any:
    """A directory in memory; the paths in facts are relative, so that they are the same in every replay."""
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.mkdtemp(prefix="simulation-", dir=place)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_control_schedule(plan: Plan, trace: bool = False) -> World:
    """One schedule of the control plane."""
    world = World(plan, trace=trace)
    return run_plane(world, ControlPlane(world))


def run_plane(world: World, plane: ControlPlane) -> World:
    """A schedule without S3."""
    world.s3.down = True
    with own_directory(), simulated_hosts(plane.hosts), answering(world.s3.send):
        try:
            world.run(plane.main, VIRTUAL_SECONDS)
        except StuckError as error:
            world.problem(f"stuck: {error}; open: {', '.join(plane._open_runs())}")
    world.over = True
    return world
