"""The telemetry service with a real stream and a real archive: the test plays the worker."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.subjects import TELEMETRY, attempts_subject, telemetry_subject
from runspine.services.telemetry.core.manifest import ArchiveState
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.wire.v1.facts_pb2 import AttemptStarted, Fact, ResumedFrom
from runspine.wire.v1.telemetry_pb2 import Array, Batch, StepBatch, StepBlock
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from tests.kit.forks.module_process import Process, start_module
from tests.kit.servers.nats import NatsServer, free_port
from tests.kit.servers.s3 import S3Server
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

SUBJECT_KINDS = {"logs": "log", "steps": "step", "episodes": "episode", "metrics": "metric", "envs": "env"}
# Quick, so that a test sees commits, trimming and compaction within seconds.
QUICK = {
    "RUNSPINE_INGEST_COMMIT_SECONDS": "0.3",
    "RUNSPINE_INGEST_TRIM_SECONDS": "0.3",
    "RUNSPINE_INGEST_TAKEOVER_SECONDS": "2",
    "RUNSPINE_LOG_LEVEL": "debug",
}


@dataclass
class TelemetryProcess:
    process: Process
    address: str
    metrics: str
    output: Path

    @property
    def log(self) -> str:
        return self.output.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            code = self.process.wait(20)
            # One that was still importing has no output and no handler for the signal yet.
            assert code == 0 or (code == -signal.SIGTERM and not self.log), self.log

    @property
    def rss_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@dataclass
class Archived:
    """The stream, the bucket, and as many services as a test wants."""

    rig: Rig
    s3: S3Server
    folder: Path
    bucket: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")
    services: list[TelemetryProcess] = field(default_factory=list)
    sent: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def blobs(self) -> RangedS3Blobs:
        return RangedS3Blobs(self.s3.settings().model_copy(update={"s3_bucket": self.bucket}))

    async def begin(self) -> None:
        await self.s3.ready()
        await self.blobs.ensure_bucket()

    def start(self, **environment: str) -> TelemetryProcess:
        address, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
        output = self.folder / f"telemetry-{len(self.services)}.log"
        settings = {
            **self.s3.environment,
            "RUNSPINE_S3_BUCKET": self.bucket,
            "RUNSPINE_NATS_URL": self.rig.url,
            "RUNSPINE_GRPC_ADDRESS": address,
            "RUNSPINE_METRICS_ADDRESS": metrics,
            **QUICK,
        }
        with output.open("wb") as file:
            process = start_module(
                "runspine.services.telemetry", {**os.environ, **settings, **environment}, stderr=file
            )
        service = TelemetryProcess(process, address, metrics, output)
        self.services.append(service)
        return service

    @asynccontextmanager
    async def stub(self, service: TelemetryProcess) -> AsyncIterator[Any]:
        options = [("grpc.max_receive_message_length", 64 << 20)]
        async with grpc.aio.insecure_channel(service.address, options=options) as channel:
            await asyncio.wait_for(channel.channel_ready(), 90)
            yield TelemetryServiceStub(channel)

    async def emit(
        self, run_id: str, *, attempt: int = 1, again: int = 0, number: int = 0, **kind: Any
    ) -> int:
        """Publish one batch as a worker does; the next number of its attempt."""
        number = number or self.sent.get((run_id, attempt), 0) + 1
        self.sent[run_id, attempt] = max(number, self.sent.get((run_id, attempt), 0))
        batch = Batch(run_id=run_id, attempt=attempt, number=number, **kind)
        return await self.rig.publisher.publish(
            telemetry_subject(run_id, attempt, SUBJECT_KINDS[next(iter(kind))]),
            batch.SerializeToString(),
            {MESSAGE_ID: f"{run_id}:{attempt}:{number}:{again}"},
        )

    async def attempt(self, run_id: str, number: int, resumed_at: int | None = None) -> None:
        _, version = await self.rig.log.read(attempts_subject(run_id))
        resumed = (
            None if resumed_at is None else ResumedFrom(run_id=run_id, attempt=number - 1, step=resumed_at)
        )
        started = AttemptStarted(attempt=number, worker_id="w", resumed_from=resumed)
        await self.rig.log.append(attempts_subject(run_id), [Fact(attempt_started=started)], expected=version)

    async def archive(self, partition: int = 0, partitions: int = 1) -> ArchiveState:
        """The archive as its manifests describe it now."""
        chain = ManifestChain(self.blobs, partition, partitions)
        await chain.load()
        return chain.archive

    async def archived_to(self, position: int, seconds: float = 90.0) -> None:
        async def reached() -> bool:
            return (await self.archive()).cursor >= position

        await eventually(reached, seconds)

    async def trimmed_to(self, position: int, seconds: float = 90.0) -> None:
        async def reached() -> bool:
            return (await self.rig.log.extent(TELEMETRY)).first > position

        await eventually(reached, seconds)

    async def close(self) -> None:
        for service in self.services:
            if service.process.poll() is None:
                await asyncio.to_thread(service.stop)


def steps(episode: str, first: int, rewards: Sequence[float], counter: int, **more: Any) -> StepBlock:
    """A block whose actions and observations identify the steps they are of."""
    n = len(rewards)
    numbers = np.arange(counter, counter + n)
    return StepBlock(
        episode_id=episode,
        first_step=first,
        count=n,
        action=Array(dtype="<i8", data=numbers.astype("<i8").tobytes()),
        reward=Array(dtype="<f8", data=np.array(rewards, "<f8").tobytes()),
        flags=bytes(n),
        observation=Array(
            dtype="<f4", shape=[2], data=np.stack([numbers, -numbers], 1).astype("<f4").tobytes()
        ),
        first_at=1_000_000 + counter * 10,
        last_at=1_000_000 + (counter + n - 1) * 10,
        global_step=counter,
        **more,
    )


def step_batch(*blocks: StepBlock) -> StepBatch:
    return StepBatch(blocks=blocks)


@asynccontextmanager
async def archiving(server: NatsServer, s3: S3Server, connect: Any, folder: Path) -> AsyncIterator[Archived]:
    mine = await connect("rig")
    made = Archived(Rig(server.url, folder, mine.link, mine.publisher, mine.log), s3, folder)
    await made.begin()
    yield made
    await made.close()
