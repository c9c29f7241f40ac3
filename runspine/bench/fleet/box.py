"""A fleet in a box: workers with the real wire and no trainers, on services of their own."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from runspine.bench.control.control import Caller
from runspine.bench.control.limits import SMALL, synced_writes
from runspine.bench.kit.figures import Report, percentile
from runspine.bench.kit.screen import Announce
from runspine.clock import now_micros
from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.eventlog import ConflictError, Version
from runspine.eventlog.connection import NatsAccount, NatsConnection, NatsUnreachableError
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.eventlog.subjects import attempts_subject, beat_subject, worker_subject
from runspine.services.worker.claim.offers import OfferQueue
from runspine.tasks import cancel_and_wait
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import EXITED, AttemptExited, AttemptStarted, Counts, Fact, WorkerOnline
from runspine.wire.v1.run_pb2 import COMPLETED, Beat
from runspine.wire.v1.spec_pb2 import RunSpec

WORKERS_A_LINK = 50
IDLE_SECONDS = 5.0
SUBMITS = 30
CLIENTS = 16
SPEC = RunSpec(runner="script", command=["true"])


@dataclass(slots=True)
class Tally:
    """What the workers of a box did."""

    claims: int = 0
    lost_claims: int = 0
    ended: int = 0
    started: dict[str, float] = field(default_factory=dict)
    beats: int = 0
    # Workers that sent a heartbeat since this was cleared.
    alive: set[str] = field(default_factory=set)


class BoxedWorker:
    """A worker of one slot whose runs end at once."""

    def __init__(self, worker_id: str, link: NatsConnection, log: JetStreamLog, tally: Tally) -> None:
        self._id = worker_id
        self._link = link
        self._log = log
        self._offers = OfferQueue(link, ["default"])
        self._tally = tally

    async def run(self) -> None:
        online = WorkerOnline(worker_id=self._id, pools=["default"], slots=1)
        await self._log.append(worker_subject(self._id), [_fact(worker_online=online)], expected=Version())
        beats = asyncio.create_task(self._beat())
        try:
            while True:
                lease = await self._offers.next()
                version = await self._claim(lease.offer.run_id)
                await self._offers.acknowledge(lease, "taken")
                if version is not None:
                    await self._exit(lease.offer.run_id, version)
        finally:
            await cancel_and_wait(beats)

    async def _claim(self, run_id: str) -> Version | None:
        started = AttemptStarted(attempt=1, worker_id=self._id)
        try:
            version = await self._log.append(
                attempts_subject(run_id), [_fact(attempt_started=started)], expected=Version()
            )
        except ConflictError:
            self._tally.lost_claims += 1
            return None
        self._tally.claims += 1
        self._tally.started[run_id] = time.perf_counter()
        return version

    async def _exit(self, run_id: str, version: Version) -> None:
        exited = AttemptExited(
            attempt=1, worker_id=self._id, outcome=EXITED, counts=Counts(steps=1, episodes=1, metrics=1)
        )
        await self._log.append(attempts_subject(run_id), [_fact(attempt_exited=exited)], expected=version)
        self._tally.ended += 1

    async def _beat(self) -> None:
        while True:
            beat = Beat(worker_id=self._id, at=now_micros())
            with contextlib.suppress(NatsUnreachableError):
                if self._link.connected:
                    await self._link.publish(beat_subject(self._id), beat.SerializeToString())
                    self._tally.beats += 1
                    self._tally.alive.add(self._id)
            await asyncio.sleep(1.0)


@contextlib.asynccontextmanager
async def boxed_workers(stack: Stack, count: int) -> AsyncIterator[Tally]:
    """Workers while the context is open, many on each connection."""
    secrets, tally = stack.credentials, Tally()
    account = NatsAccount(
        f"nats://{stack.addresses['nats']}", "worker", secrets.nats["worker"], "_INBOX_worker"
    )
    async with contextlib.AsyncExitStack() as opened:
        running: list[asyncio.Task[None]] = []
        for first in range(0, count, WORKERS_A_LINK):
            link = await opened.enter_async_context(NatsConnection(account, f"box-{first}"))
            publisher = await opened.enter_async_context(Publisher(link))
            key = SigningKey.parse(secrets.signing["worker"])
            log = JetStreamLog(link, publisher, keyring=Keyring.parse(secrets.log_root), key=key)
            await log.begin_signing()
            for number in range(first, min(first + WORKERS_A_LINK, count)):
                running.append(asyncio.create_task(BoxedWorker(f"w{number}", link, log, tally).run()))
        try:
            yield tally
        finally:
            await cancel_and_wait(*running)


async def bench_drain(workers: int, runs: int, announce: Announce) -> Report:
    """Runs that end at once, submitted before any worker is there: how fast they are drained, and what of the
    disk's synced writes that is."""
    report = Report("Short runs")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        home = Path(scratch)
        async with running_stack(home / "box", only={"nats", "s3", "orchestrator"}) as stack:
            caller = Caller(stack)
            announce(f"{runs:,} submissions")
            await asyncio.to_thread(_submit, caller, runs)
            process = psutil.Process(stack.pid("orchestrator"))
            spent = _cpu(process)
            announce(f"{workers:,} workers whose runs end at once")
            began = time.perf_counter()
            async with boxed_workers(stack, workers) as tally:
                await _until_completed(caller, runs)
                seconds = time.perf_counter() - began
            cpu = _cpu(process) - spent
            sync = percentile(synced_writes(home, SMALL, 200), 0.5)
    # Five commits of a run are synced one by one: claim, exit, start, end, and its offer.
    limit = 1 / sync / 5
    report.add(
        f"{runs:,} runs that end at once, {workers:,} workers", runs / seconds, "runs/s",
        context=f"orchestrator {cpu / runs * 1000:.1f} ms of CPU a run; {tally.lost_claims} claims lost; "
        f"synced writes one by one allow {limit:,.0f} runs/s: {runs / seconds / limit:.2f} of that",
    )  # fmt: skip
    return report


async def bench_idle(sizes: Sequence[int], announce: Announce) -> Report:
    """Idle workers with heartbeats: CPU of the orchestrator, the wait until a run is claimed, and the time
    until all are back after nats-server was killed."""
    report = Report("Idle workers")
    curves = {name: report.curve(f"fleet {name}", name) for name in ("idle", "claim", "return")}
    for size in sizes:
        announce(f"{size:,} idle workers")
        with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
            async with (
                running_stack(Path(scratch) / "box", only={"nats", "s3", "orchestrator"}) as stack,
                boxed_workers(stack, size) as tally,
            ):
                found = await _measure_idle(stack, tally, size)
        for name, value in zip(curves, found, strict=True):
            curves[name].append((size, value))
        idle, claim, back = found
        report.add(
            f"{size:,} idle workers: CPU of the orchestrator", idle, "cores",
            context=f"a run is claimed {claim * 1000:.0f} ms after its submit (p99 of {SUBMITS}); "
            f"after a kill of nats-server all heartbeats are back in {back:.1f} s",
        )  # fmt: skip
    return report


async def _measure_idle(stack: Stack, tally: Tally, size: int) -> tuple[float, float, float]:
    """Cores in use, seconds until a claim (p99), seconds until every worker is back."""
    caller = Caller(stack)
    await _until(lambda: tally.beats >= 2 * size)
    process = psutil.Process(stack.pid("orchestrator"))
    before, began = _cpu(process), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (_cpu(process) - before) / (time.perf_counter() - began)
    waits = []
    for _ in range(SUBMITS):
        submitted = time.perf_counter()
        run_id = await asyncio.to_thread(caller.submit, SPEC)
        await _until(lambda run_id=run_id: run_id in tally.started)  # type: ignore[misc]
        waits.append(tally.started[run_id] - submitted)
    old = stack.kill("nats")
    killed = time.perf_counter()
    await stack.until_restarted("nats", old)
    tally.alive.clear()
    await _until(lambda: len(tally.alive) == size)
    return idle, percentile(waits, 0.99), time.perf_counter() - killed


async def _until(check: Callable[[], bool]) -> None:
    while not check():
        await asyncio.sleep(0.005)


def _submit(caller: Caller, runs: int) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda _: caller.submit(SPEC), range(runs)))


async def _until_completed(caller: Caller, runs: int) -> None:
    done = wire.ListRequest(page_size=1, phases=[COMPLETED])
    while True:
        found = await asyncio.to_thread(caller.stub.List, done, metadata=caller.auth)
        if found.total >= runs:
            return
        await asyncio.sleep(0.1)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _fact(**kind: object) -> Fact:
    return Fact(at=now_micros(), **kind)  # type: ignore[arg-type]
