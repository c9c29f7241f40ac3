"""A worker under test: the test plays the orchestrator, everything else is real."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.streams import declarations
from runspine.eventlog.subjects import (
    TELEMETRY,
    attempts_subject,
    run_subject,
    work_subject,
    worker_subject,
)
from runspine.eventlog.tail import Tail
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import (
    AttemptExited,
    Fact,
    RunCancelRequested,
    RunQueued,
    RunRequeued,
    RunSubmitted,
)
from runspine.wire.v1.run_pb2 import Offer
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import Batch, LogLine
from tests.kit.forks.module_process import Process, start_module
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually

# Writes its pid and a daemon's, then waits.
FAMILY = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        open("daemon", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("daemon"): time.sleep(0.01)
print("pid", os.getpid(), open("daemon").read(), flush=True)
time.sleep(600)
"""


@dataclass
class WorkerProcess:
    process: Process
    directory: Path
    errors: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def term(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def log(self) -> str:
        return self.errors.read_text()


@dataclass
class Rig:
    url: str
    folder: Path
    link: NatsConnection
    publisher: Publisher
    log: JetStreamLog
    workers: list[WorkerProcess] = field(default_factory=list)

    def worker(self, name: str = "w1", slots: int = 2, **environment: str) -> WorkerProcess:
        directory = self.folder / name
        directory.mkdir(exist_ok=True)
        errors = directory / f"stderr-{len(self.workers)}"
        settings = {
            "RUNSPINE_NATS_URL": self.url,
            "RUNSPINE_WORKER_ID": name,
            "RUNSPINE_WORKER_DIR": str(directory),
            "RUNSPINE_WORKER_SLOTS": str(slots),
            # Trainers of these tests read and write wherever the test looks; the stacks' are sandboxed.
            "RUNSPINE_WORKER_SANDBOX": "off",
            # Most of these tests run no artifacts service.
            "RUNSPINE_WORKER_UPLOADS": "own",
        }
        with errors.open("wb") as file:
            process = start_module(
                "runspine.services.worker", {**os.environ, **settings, **environment}, stderr=file
            )
        started = WorkerProcess(process, directory, errors)
        self.workers.append(started)
        return started

    async def consumer(self, pool: str = "default", ack_wait: float = 10.0) -> None:
        config = {
            "durable_name": f"pool-{pool}",
            "filter_subject": f"work.{pool}.>",
            "ack_policy": "explicit",
            "ack_wait": int(ack_wait * 1e9),
            "max_deliver": -1,
            "max_ack_pending": 10000,
        }
        body = json.dumps({"stream_name": "WORK", "config": config}).encode()
        answer = await self.link.request(f"$JS.API.CONSUMER.DURABLE.CREATE.WORK.pool-{pool}", body)
        assert "error" not in json.loads(answer.data), answer.data

    async def submit(self, *command: str, offers: int = 1, pool: str = "default", **fields: object) -> str:
        """Submit a script run and offer it."""
        spec = RunSpec(runner="script", command=command, pool=pool, **fields)  # type: ignore[arg-type]
        run_id = new_ulid()
        submitted = RunSubmitted(run_id=run_id, name="test", spec=spec)
        await self.decide(run_id, Fact(run_submitted=submitted), Fact(run_queued=RunQueued(attempt=1)))
        for _ in range(offers):
            await self.offer(run_id, 1, pool)
        return run_id

    async def python(self, script: str, **fields: object) -> str:
        return await self.submit("python", "-c", script, **fields)  # type: ignore[arg-type]

    async def offer(self, run_id: str, attempt: int, pool: str = "default") -> None:
        offer = Offer(run_id=run_id, attempt=attempt, pool=pool, priority=50)
        subject = work_subject(pool, 50)
        await self.publisher.publish(subject, offer.SerializeToString(), {MESSAGE_ID: new_ulid()})

    async def decide(self, run_id: str, *facts: Fact) -> None:
        _, version = await self.log.read(run_subject(run_id))
        await self.log.append(run_subject(run_id), facts, expected=version)

    async def cancel(self, run_id: str) -> None:
        asked = RunCancelRequested(requested_by="test", reason="enough")
        await self.decide(run_id, Fact(run_cancel_requested=asked))

    async def requeue(self, run_id: str, attempt: int) -> None:
        await self.decide(run_id, Fact(run_requeued=RunRequeued(attempt=attempt, lost=True)))

    async def received(self, subject: str) -> list[Fact]:
        history, _ = await self.log.read(subject)
        return [fact for recorded in history for fact in recorded.commit.facts]

    async def attempts(self, run_id: str) -> list[Fact]:
        return await self.received(attempts_subject(run_id))

    async def started(self, run_id: str, seconds: float = 120.0) -> Fact:
        async def probe() -> Fact | None:
            return next((f for f in await self.attempts(run_id) if f.HasField("attempt_started")), None)

        return await eventually(probe, seconds)

    async def exited(self, run_id: str, attempt: int = 1, seconds: float = 120.0) -> AttemptExited:
        async def probe() -> AttemptExited | None:
            ends = [f.attempt_exited for f in await self.attempts(run_id) if f.HasField("attempt_exited")]
            return next((end for end in ends if end.attempt == attempt), None)

        return await eventually(probe, seconds)

    async def online(self, name: str = "w1") -> Fact:
        async def probe() -> Fact | None:
            return next(iter(await self.received(worker_subject(name))), None)

        return await eventually(probe)

    async def waiting_offers(self) -> int:
        answer = await self.link.request("$JS.API.STREAM.INFO.WORK", b"")
        return int(json.loads(answer.data)["state"]["messages"])

    async def batches(self, run_id: str) -> list[Batch]:
        """Every batch of a run that is on the stream now, duplicates included."""
        info = json.loads((await self.link.request("$JS.API.STREAM.INFO.TELEMETRY", b"")).data)
        end = info["state"]["last_seq"]
        found: list[Batch] = []
        if not end:
            return found
        deliveries = Tail(self.link, TELEMETRY).deliveries()
        async for delivery in deliveries:
            batch = Batch.FromString(delivery.data)
            if batch.run_id == run_id:
                found.append(batch)
            if delivery.sequence >= end:
                break
        await deliveries.aclose()
        return found

    async def lines(self, run_id: str) -> list[LogLine]:
        return [line for batch in await self.batches(run_id) for line in batch.logs.lines]

    async def texts(self, run_id: str) -> list[str]:
        return [line.text for line in await self.lines(run_id)]

    def stop(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.term()
        for worker in self.workers:
            try:
                worker.process.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()


@asynccontextmanager
async def worker_rig(server: NatsServer, connect: Any, folder: Path) -> AsyncIterator[Rig]:
    """A rig whose workers log no traceback."""
    mine = await connect("rig")
    rig = Rig(server.url, folder, mine.link, mine.publisher, mine.log)
    await rig.consumer()
    yield rig
    await asyncio.to_thread(rig.stop)
    for worker in rig.workers:
        assert "Traceback" not in worker.log(), worker.log()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


async def limit_stream(rig: Rig, most_bytes: int) -> None:
    config = next(each for each in declarations(telemetry_bytes=most_bytes) if each["name"] == "TELEMETRY")
    answer = await rig.link.request("$JS.API.STREAM.UPDATE.TELEMETRY", json.dumps(config).encode())
    assert "error" not in json.loads(answer.data), answer.data


def prometheus(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        found = re.findall(r"^(\w+)(?:\{[^}]*\})? (\S+)$", answer.read().decode(), re.M)
    return {name: float(value) for name, value in found}


async def family(rig: Rig, run_id: str) -> list[int]:
    async def probe() -> list[int] | None:
        emitted = [text for text in await rig.texts(run_id) if text.startswith("pid ")]
        return [int(word) for word in emitted[0].split()[1:]] if emitted else None

    return await eventually(probe)


async def all_gone(pids: list[int], seconds: float) -> None:
    async def probe() -> bool:
        return not any(is_alive(pid) for pid in pids)

    await eventually(probe, seconds)


async def forgotten(rig: Rig) -> None:
    """The journal is empty."""

    async def probe() -> bool:
        return not os.listdir(rig.folder / "w1" / "attempts")

    await eventually(probe)


def kept(folder: str) -> dict[str, str]:
    """The files of a run's directory."""
    return {path.name: path.read_text() for path in Path(folder).iterdir()}
