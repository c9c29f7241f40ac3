"""An artifacts service under test: real NATS, real S3, real processes; the test plays the worker."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.subjects import artifacts_subject, attempts_subject, run_subject
from runspine.ids import new_ulid
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.facts_pb2 import (
    ArtifactProduced,
    AttemptStarted,
    Fact,
    RunCompleted,
    RunQueued,
    RunStarted,
    RunSubmitted,
)
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.forks.module_process import Process, start_module
from tests.kit.servers.nats import free_port
from tests.kit.servers.s3 import S3Server
from tests.kit.waiting import eventually

DAY = 86_400 * 1_000_000


def now() -> int:
    return time.time_ns() // 1000


def key_of(data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    return f"artifacts/sha256/{digest[:2]}/{digest}"


class Service:
    """One artifacts process, or one janitor apart from it, and a stub to call it."""

    def __init__(
        self, environment: dict[str, str], folder: Path, module: str = "runspine.services.artifacts"
    ) -> None:
        self._module = module
        self.port = free_port()
        self.metrics_port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = folder / f"artifacts-{self.port}.log"
        self._environment = {
            **os.environ,
            **environment,
            "RUNSPINE_GRPC_ADDRESS": self.address,
            "RUNSPINE_METRICS_ADDRESS": f"127.0.0.1:{self.metrics_port}",
            "RUNSPINE_LOG_FORMAT": "console",
        }
        self.process: Process | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = start_module(self._module, self._environment, stdout=log, stderr=log)

    def stub(self, wait: float = 30.0) -> Any:
        channel = grpc.insecure_channel(self.address)
        try:
            grpc.channel_ready_future(channel).result(wait)
        except grpc.FutureTimeoutError:
            raise AssertionError(self.output()) from None
        return ArtifactServiceStub(channel)

    def client(self) -> Client:
        return Client(Endpoint(artifacts=self.address, trainer=self.address))

    def output(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass
class Rig:
    url: str
    folder: Path
    log: JetStreamLog
    s3: S3Server
    bucket: str
    blobs: ArtifactS3Blobs
    services: list[Service] = field(default_factory=list)

    def service(self, **settings: str) -> Service:
        """Start one; by default it prunes, scrubs and gives up on what is gone without waiting long."""
        return self._start("runspine.services.artifacts", settings)

    def janitor(self, **settings: str) -> Service:
        """Start a janitor apart from the services."""
        return self._start("runspine.services.artifacts.janitor", settings)

    def _start(self, module: str, settings: dict[str, str]) -> Service:
        environment = {
            "RUNSPINE_NATS_URL": self.url,
            **self.s3.environment,
            "RUNSPINE_S3_BUCKET": self.bucket,
            "RUNSPINE_GONE_SECONDS": "1",
            "RUNSPINE_SCRUB_HOURS": "1000",
            "RUNSPINE_ORPHAN_GRACE_SECONDS": "0",
            "RUNSPINE_JANITOR_LEASE_SECONDS": "4",
            **{f"RUNSPINE_{name.upper()}": value for name, value in settings.items()},
        }
        service = Service(environment, self.folder, module)
        service.start()
        self.services.append(service)
        return service

    async def run(
        self, *, ended: bool = True, at: int = 0, env: str = "CartPole-v1", algo: str = "ppo", **fields: Any
    ) -> str:
        """A run on the log, as the orchestrator and a worker would append it."""
        run_id, at = new_ulid(), at or now()
        spec = RunSpec(runner="builtin", env=env, algo=algo, seed=1, **fields)
        submitted = RunSubmitted(run_id=run_id, name=f"{env}__{algo}__{run_id[-6:]}", spec=spec)
        facts = [
            Fact(at=at, run_submitted=submitted),
            Fact(at=at, run_queued=RunQueued(attempt=1)),
            Fact(at=at, run_started=RunStarted(attempt=1, worker_id="w")),
        ]
        if ended:
            facts.append(Fact(at=at, run_completed=RunCompleted(attempt=1)))
        await self._append(run_subject(run_id), facts)
        await self._append(
            attempts_subject(run_id), [Fact(at=at, attempt_started=AttemptStarted(attempt=1, worker_id="w"))]
        )
        return run_id

    async def end(self, run_id: str) -> None:
        await self._append(run_subject(run_id), [Fact(at=now(), run_completed=RunCompleted(attempt=1))])

    async def produce(self, run_id: str, data: bytes, *, store: bool = True, **about: Any) -> str:
        """Store bytes and report them, as a worker does; the digest."""
        if store:
            await self.blobs.put(key_of(data), data)
        fact = produced(data, **about)
        await self._append(attempts_subject(run_id), [fact])
        return fact.artifact_produced.digest

    async def facts(self, run_id: str, kind: str = "") -> list[Fact]:
        history, _ = await self.log.read(artifacts_subject(run_id))
        facts = [fact for recorded in history for fact in recorded.commit.facts]
        return [fact for fact in facts if kind in ("", fact.WhichOneof("kind"))]

    async def indexed(self, run_id: str, count: int = 1, seconds: float = 90.0) -> list[Fact]:
        async def probe() -> list[Fact] | None:
            found = await self.facts(run_id, "artifact_indexed")
            return found if len(found) >= count else None

        return await eventually(probe, seconds)

    async def append(self, subject: str, facts: list[Fact]) -> None:
        await self._append(subject, facts)

    async def _append(self, subject: str, facts: list[Fact]) -> None:
        _, version = await self.log.read(subject)
        await self.log.append(subject, facts, expected=version)

    def stop(self) -> None:
        for service in self.services:
            service.stop()


def produced(
    data: bytes,
    *,
    kind: str = "checkpoint",
    name: str = "",
    step: int = 0,
    attempt: int = 1,
    at: int = 0,
    score: float | None = None,
) -> Fact:
    digest = hashlib.sha256(data).hexdigest()
    meta = {} if score is None else {"return_mean": Value(number=score)}
    emitted = ArtifactProduced(
        attempt=attempt,
        kind=kind,
        name=name or f"{kind}s/step-{step}.bin",
        digest=digest,
        size=len(data),
        key=key_of(data),
        step=step,
        meta=meta,
    )
    return Fact(at=at or now(), artifact_produced=emitted)


def artifact_of(stub: Any, reference: str) -> wire.Artifact:
    answer: wire.GetArtifactResponse = stub.Get(wire.GetArtifactRequest(reference=reference))
    return answer.artifact


@asynccontextmanager
async def rig_on(url: str, log: JetStreamLog, s3: S3Server, folder: Path) -> AsyncIterator[Rig]:
    """A rig with a bucket of its own."""
    await s3.ready()
    bucket = f"t{new_ulid().lower()}"
    blobs = ArtifactS3Blobs(s3.settings().model_copy(update={"s3_bucket": bucket}))
    await blobs.ensure_bucket()
    made = Rig(url, folder, log, s3, bucket, blobs)
    try:
        yield made
    finally:
        made.stop()
