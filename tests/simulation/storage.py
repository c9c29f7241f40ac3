"""Schedules of what is stored: workers that ship steps and upload checkpoints, two telemetry services that
archive, two artifacts services with their janitors, on models of NATS and S3."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import grpc
import pyarrow as pa

from runspine.domain.retention import RETENTION, decide_rules, fold_rules
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.decider import handle
from runspine.eventlog.projection import Projector
from runspine.eventlog.streams import ensure_streams, wait_for_streams
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS, TELEMETRY, artifacts_subject
from runspine.service.process import Health
from runspine.services.artifacts.assembly import Assembly
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges import object_store
from runspine.services.artifacts.edges.lease import JanitorLease
from runspine.services.artifacts.settings import ArtifactsSettings
from runspine.services.telemetry.edges import manifest_chain
from runspine.services.telemetry.edges.archive_loops import run_archive
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage import blobs, file_blobs
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import RetentionProfile
from runspine.wire.v1.spec_pb2 import Retry, RunSpec
from tests.simulation.calls import SimulatedStub
from tests.simulation.checkpoint_faults import CheckpointFaults
from tests.simulation.control import ControlPlane, own_directory
from tests.simulation.faults import Faults, Process
from tests.simulation.hosts import RUNNER, simulated_hosts
from tests.simulation.loop import StuckError
from tests.simulation.nats.in_flight import InFlightFaults
from tests.simulation.plan import Plan
from tests.simulation.s3.faults import StorageFaults
from tests.simulation.s3.link import answering
from tests.simulation.storage_verdict import StorageVerdict
from tests.simulation.world import World, here, settings_of

ORCHESTRATOR = "orchestrator-1"
WORKERS = ("worker-1", "worker-2")
TELEMETRIES = ("telemetry-1", "telemetry-2")
REGISTRIES = ("artifacts-1", "artifacts-2")
# Of short schedules and of long ones.
RUN_COUNTS = (1, 3)
FAULT_SECONDS = (5.0, 8.0)
MOST_FAULTS = 5
# Parts of the subjects whose messages are lost or late.
IN_FLIGHT = ("attempts", "log", "log", "step", "artifacts")
VIRTUAL_SECONDS = 400.0
# How long the last file may take to be stored and verified after the last run has ended.
SETTLE_SECONDS = 90.0
CANCEL_SHARE = 0.15
PART_BYTES = 600
AWAY = (NatsUnreachableError, BlobsUnavailableError)
RULES = RetentionProfile(max_checkpoints_per_run=2, grace_seconds=0, undo_seconds=1.0, automatic=True)
SYNC_DIR = Path()


class SimulatedDatetime(datetime):
    """Its `now` is that of the schedule."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)


class StoragePlane(ControlPlane):
    """The processes of one schedule: with telemetry services, artifacts services, or both."""

    def __init__(self, world: World, *, archive: bool, registry: bool) -> None:
        super().__init__(world)
        self.archive = archive
        self.registry = registry
        self.hosts.training = True
        self.submitted = 0
        self.run_count = RUN_COUNTS[self.long]
        self.fault_seconds = FAULT_SECONDS[self.long]
        self.verdict = StorageVerdict(world, self.hosts, archive=archive, registry=registry)
        self.checked = False

    async def main(self) -> None:
        mix = self.world.mix
        processes: dict[str, Process] = dict.fromkeys(mix.processes(WORKERS), self.worker)
        if self.archive:
            processes |= dict.fromkeys(mix.processes(TELEMETRIES), self.telemetry)
        if self.registry:
            processes |= dict.fromkeys(mix.processes(REGISTRIES), self.artifacts)
        await self._prepare()
        self.world.start(ORCHESTRATOR, self.orchestrator)
        for name, process in processes.items():
            self.world.start(name, process)
        self.world.start("client", self.submitter)
        self.world.on_kill = self.killed
        faults = Faults(self.world, processes, restart=list(processes), long_share=0.1)
        storage = StorageFaults(self.world, processes)
        at_checkpoints = CheckpointFaults(self.world, self.hosts, processes, storage)
        faults.add(*storage.kinds(), faults.clock_jumps, *at_checkpoints.kinds())
        faults.add(*InFlightFaults(self.world, IN_FLIGHT).kinds())
        if not self.registry:
            faults.add(at_checkpoints.damage)
        faults.plan(0.5, self.fault_seconds, MOST_FAULTS)
        while self.submitted < self.run_count and not self.world.problems:
            await asyncio.sleep(0.5)
        await self._runs_end()
        await self._settle()

    async def _prepare(self) -> None:
        async with self.world.connected("setup") as connected:
            await ensure_streams(connected.link, replicas=3)
            await handle(
                connected.log,
                artifacts_subject(RETENTION),
                lambda rules: decide_rules(rules, "default", RULES, 1, "test"),
                fold_rules,
            )

    async def _settle(self) -> None:
        """Check once everything is stored, and at the latest when it should have been."""
        await asyncio.sleep(max(0.0, self.fault_seconds - self.world.loop.now) + 1.0)
        until = self.world.loop.now + SETTLE_SECONDS
        while not self.world.problems and self.world.loop.now < until and self.verdict.unsettled():
            await asyncio.sleep(1.0)
        if self.world.problems:
            return
        self.world.s3.heal()
        self.world.start("reader", self._check)
        while not self.checked and not self.world.problems:
            await asyncio.sleep(0.5)

    async def _check(self) -> None:
        async with self.world.connected("reader") as connected:
            await self.verdict.check(connected, self.shared_settings())
        self.checked = True

    def shared_settings(self) -> dict[str, Any]:
        return {"nats_url": self.world.cluster.url, "s3_sync_dir": SYNC_DIR}

    async def submitter(self) -> None:
        """Submits every run until it is answered; cancels some."""
        stub: Any = SimulatedStub(self.exchange, ORCHESTRATOR)
        for number in range(self.run_count):
            name = f"run.{number}"
            chance = self.world.plan.random(name)
            if self.world.takes(name):
                spec = RunSpec(runner=RUNNER, seed=number, retry=Retry(max_attempts=4, backoff_seconds=0.1))
                request = wire.SubmitRequest(spec=spec, idempotency_key=name)
                run_id = (await self._until_answered(stub.Submit, request)).run.id
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                if chance.random() < CANCEL_SHARE:
                    with contextlib.suppress(grpc.RpcError):
                        await stub.Cancel(wire.CancelRequest(run_id=run_id))
            self.submitted += 1

    async def _until_answered(self, call: Any, request: Any) -> Any:
        while True:
            try:
                return await call(request)
            except grpc.RpcError:
                await asyncio.sleep(0.2)

    async def _again(self, process: Process) -> None:
        """A service whose start fails is started again."""
        while True:
            try:
                await process()
            except AWAY:
                self.world.reach(f"{here().partition('-')[0]}.started_again")
            await asyncio.sleep(1.0)

    async def telemetry(self) -> None:
        """As `python -m runspine.services.telemetry`, without its gRPC server."""
        await self._again(self._telemetry)

    async def _telemetry(self) -> None:
        settings = settings_of(
            TelemetrySettings,
            ingest_commit_seconds=0.8,
            ingest_takeover_seconds=4.0,
            ingest_trim_seconds=0.5,
            ingest_grace_seconds=3.0,
            **self.shared_settings(),
        )
        async with self.world.connected("telemetry") as connected:
            link, log = connected.link, connected.log
            await wait_for_streams(link, RUNS, ATTEMPTS, TELEMETRY, timeout=float("inf"))
            ranged = RangedS3Blobs(settings)
            catalog = ArchiveCatalog(ranged, 1)
            store = SegmentStore(ranged, 1 << 20)
            await run_archive(settings, Health("telemetry"), link, log, ranged, catalog, store)

    async def artifacts(self) -> None:
        """As `python -m runspine.services.artifacts`, without its gRPC server."""
        await self._again(self._artifacts)

    async def _artifacts(self) -> None:
        settings = settings_of(
            ArtifactsSettings,
            janitor_seconds=1.0,
            janitor_lease_seconds=3.0,
            gone_seconds=6.0,
            snapshot_commits=8,
            snapshot_seconds=2.0,
            **self.shared_settings(),
        )
        async with self.world.connected("artifacts") as connected:
            link, log = connected.link, connected.log
            await wait_for_streams(link, RUNS, ATTEMPTS, ARTIFACTS, timeout=float("inf"))
            stored = ArtifactS3Blobs(settings)
            catalog = ArtifactCatalog()
            projector = Projector(log, stored, catalog)
            await projector.start()
            lease = JanitorLease(link, log, catalog, projector, settings.janitor_lease_seconds)
            await Assembly(settings, link, log, stored, catalog, projector, lease).run()


@contextlib.contextmanager
def simulated_storage(world: World) -> Any:
    """S3 is the model: synced when asked for, with small parts, read by one thread at a time."""
    threads = pa.cpu_count(), pa.io_thread_count()
    with (
        answering(world.s3.send),
        patch.object(blobs, "sync_filesystem", lambda _: world.s3.model.sync()),
        patch.object(FileBlobs, "part_bytes", PART_BYTES),
        patch.object(file_blobs, "datetime", SimulatedDatetime),
        patch.object(object_store, "datetime", SimulatedDatetime),
        patch.object(manifest_chain, "datetime", SimulatedDatetime),
    ):
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        try:
            yield
        finally:
            pa.set_cpu_count(threads[0])
            pa.set_io_thread_count(threads[1])


def _run(plan: Plan, trace: bool, *, archive: bool, registry: bool) -> World:
    world = World(plan, trace=trace)
    plane = StoragePlane(world, archive=archive, registry=registry)
    with own_directory(), simulated_hosts(plane.hosts), simulated_storage(world):
        try:
            world.run(plane.main, VIRTUAL_SECONDS)
        except StuckError as error:
            world.problem(f"stuck: {error}; open: {', '.join(plane._open_runs())}")
    world.over = True
    return world


def run_telemetry_schedule(plan: Plan, trace: bool = False) -> World:
    """One schedule of the archive of telemetry."""
    return _run(plan, trace, archive=True, registry=False)


def run_artifacts_schedule(plan: Plan, trace: bool = False) -> World:
    """One schedule of uploads, the registry and the janitor."""
    return _run(plan, trace, archive=False, registry=True)
