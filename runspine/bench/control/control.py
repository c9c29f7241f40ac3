"""`runspine bench control`: submit to RUNNING, admissions, restart on a long log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from runspine.bench.control.limits import SMALL, measure_limits, synced_writes
from runspine.bench.control.seed_log import FACTS_A_RUN, seed_log
from runspine.bench.kit.figures import Report, percentile, spread, stopwatch
from runspine.bench.kit.ports import free_port
from runspine.bench.kit.screen import Announce
from runspine.bench.telemetry.store import memory_mib
from runspine.embedded import running_stack
from runspine.embedded.home import Home
from runspine.embedded.stack import Stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

TARGET_FACTS = 1_000_000
FAST_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 50)]


class Caller:
    """A client of one stack, with its token."""

    def __init__(self, stack: Stack) -> None:
        self._channel = grpc.insecure_channel(stack.addresses["orchestrator"])
        self.stub = TrainerServiceStub(self._channel)
        self.auth = [("authorization", f"Bearer {stack.token}")]

    def submit(self, spec: RunSpec) -> str:
        run_id: str = self.stub.Submit(wire.SubmitRequest(spec=spec), metadata=self.auth).run.id
        return run_id

    def life(self, spec: RunSpec) -> tuple[float, float]:
        """Seconds from the call to the facts RunStarted and then RunCompleted at a watcher."""
        began = time.perf_counter()
        run_id = self.submit(spec)
        running = 0.0
        watch = wire.WatchRequest(run_id=run_id, until_end=True)
        for event in self.stub.Watch(watch, metadata=self.auth):
            kinds = {fact.WhichOneof("kind") for fact in event.facts}
            if "run_started" in kinds:
                running = time.perf_counter() - began
            if event.run.phase in (COMPLETED, FAILED):
                assert event.run.phase == COMPLETED, event.run.reason
        return running, time.perf_counter() - began


def bare_start_seconds(times: int = 10) -> float:
    """Seconds to start an empty Python: the least that any process takes."""
    taken: list[float] = []
    for _ in range(times):
        with stopwatch(taken):
            subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return percentile(taken, 0.5)


async def bench_control(facts: int, runs: int, announce: Announce) -> Report:
    report = Report("Control plane")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        home = Path(scratch)
        await measure_live(report, home, runs, announce)
        await measure_restart(report, home / "long", facts, announce)
    return report


async def measure_live(report: Report, home: Path, runs: int, announce: Announce, limits: int = 0) -> None:
    """Measure runs on a fresh stack; with `limits`, also this many raw messages."""
    sync = percentile(synced_writes(home, SMALL, 100), 0.5)
    async with running_stack(home / "live", workers=1, slots=2) as stack:
        caller = Caller(stack)
        await measure_latency(report, caller, runs, sync, announce)
        await measure_admissions(report, caller, runs * 10, sync, announce)
        if limits:
            await measure_limits(report, stack, home, limits, announce)


async def measure_latency(report: Report, caller: Caller, runs: int, sync: float, announce: Announce) -> None:
    announce(f"{runs} runs, one after the other, on an idle worker")
    spec = RunSpec(runner="script", command=["true"])
    caller.life(spec)
    lives = [await asyncio.to_thread(caller.life, spec) for _ in range(runs)]
    taken, done = ([life[part] for life in lives] for part in (0, 1))
    floor = f"one synced write {sync * 1000:.2f} ms; an empty Python {bare_start_seconds() * 1000:.0f} ms"
    p99 = percentile(taken, 0.99) * 1000
    report.add("submit → RUNNING, p50", unit="ms", context=floor, **spread(taken, 1000))
    report.add("submit → RUNNING, p99", p99, "ms", target="≤ 500 ms", met=p99 <= 500, key="start")
    report.add("submit → done, p50", unit="ms", group="done", who="runspine", **spread(done, 1000))


async def measure_admissions(
    report: Report, caller: Caller, runs: int, sync: float, announce: Announce
) -> None:
    announce(f"{runs} submissions from 16 clients, to a pool without workers")
    spec = RunSpec(runner="script", command=["true"], pool="nobody")
    taken: list[float] = []

    def all_of_them() -> None:
        with ThreadPoolExecutor(16) as clients, stopwatch(taken):
            list(clients.map(lambda _: caller.submit(spec), range(runs)))

    await asyncio.to_thread(all_of_them)
    rate = runs / taken[0]
    floor = f"{1 / sync:,.0f} synced writes/s, one after the other: {rate * sync:.2f} of that"
    report.add(
        "admissions", rate, "runs/s", target="≥ 100/s", met=rate >= 100, context=floor, key="admissions",
        group="admissions", who="runspine",
    )  # fmt: skip


class Restart(NamedTuple):
    """Seconds to start without and with a snapshot; memory of the process and bytes of the log on disk."""

    cold: float
    warm: float
    memory_mib: float
    log_bytes: int


async def measure_restart(report: Report, home: Path, facts: int, announce: Announce) -> Restart:
    announce(f"writing a log of {facts:,} facts")
    await seed_log(Home.at(home), facts, lambda done: announce(f"  {done:,} facts"))
    size = sum(file.stat().st_size for file in Home.at(home).nats.rglob("*") if file.is_file())
    async with running_stack(home, only={"nats", "s3"}) as stack:
        announce("first start: the whole log is read")
        cold, _ = await start_orchestrator(stack, facts // FACTS_A_RUN + 1)
        announce("second start: from the snapshot")
        async with orchestrator(stack, facts // FACTS_A_RUN + 1) as started:
            warm, memory = started.seconds, started.memory_mib
            announce("verifying every commit and signature")
            verified = await asyncio.to_thread(_verify, started.address, stack)
    report.add(
        f"start on {facts:,} facts, no snapshot", cold, "s",
        context=f"{facts / cold:,.0f} facts/s; {size / facts:.0f} B a fact on the disk",
    )  # fmt: skip
    report.add(
        f"start on {facts:,} facts, by snapshot", warm, "s", target="≤ 5 s", met=warm <= 5,
        key="restart" if facts >= TARGET_FACTS else "",
        context=f"{cold / warm:.1f} × faster than reading the log; {memory:.0f} MiB of memory",
    )  # fmt: skip
    commits = sum(each["commits"] for each in verified["streams"].values())
    report.add(
        f"events verify of {facts:,} facts", verified["seconds"], "s", key="verify",
        context=f"{commits / verified['seconds']:,.0f} commits/s, each with its signature, by "
        f"{verified['processes']} processes",
    )  # fmt: skip
    return Restart(cold, warm, memory, size)


def _verify(address: str, stack: Stack) -> dict[str, Any]:
    """`runspine events verify` of a log that must be whole."""
    environment = {
        **os.environ, "RUNSPINE_ADDRESS": address, "RUNSPINE_LOG_ROOT": stack.credentials.log_root,
    }  # fmt: skip
    command = [sys.executable, "-m", "runspine", "events", "verify", "--json"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"the log is not whole: {found.stdout[:2000]} {found.stderr[-2000:]}")
    verdict: dict[str, Any] = json.loads(found.stdout)
    return verdict


class StartedOrchestrator(NamedTuple):
    """Seconds from its start until it answered a List, its memory then, and where it listens."""

    seconds: float
    memory_mib: float
    address: str


async def start_orchestrator(stack: Stack, runs: int) -> tuple[float, float]:
    """Seconds from the start until it answers a List, and its memory then; stops it afterwards."""
    async with orchestrator(stack, runs) as started:
        return started.seconds, started.memory_mib


@contextlib.asynccontextmanager
async def orchestrator(stack: Stack, runs: int) -> AsyncIterator[StartedOrchestrator]:
    """An orchestrator that has so many runs on its board."""
    credentials = stack.credentials
    address = f"127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        "RUNSPINE_NATS_URL": f"nats://{stack.addresses['nats']}",
        "RUNSPINE_NATS_USER": "orchestrator",
        "RUNSPINE_NATS_PASSWORD": credentials.nats["orchestrator"],
        "RUNSPINE_LOG_ROOT": credentials.log_root,
        "RUNSPINE_SIGNING_KEY": credentials.signing["orchestrator"],
        "RUNSPINE_S3_ENDPOINT": stack.addresses["s3"],
        "RUNSPINE_S3_ACCESS_KEY": credentials.s3_access_key,
        "RUNSPINE_S3_SECRET_KEY": credentials.s3_secret_key,
        "RUNSPINE_GRPC_ADDRESS": address,
        "RUNSPINE_LOG_LEVEL": "warning",
    }
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "runspine.services.orchestrator"], env=environment)
    try:
        with grpc.insecure_channel(address, options=FAST_RECONNECT) as channel:
            await asyncio.to_thread(_first_answer, TrainerServiceStub(channel), process, runs)
            seconds = time.perf_counter() - began
            yield StartedOrchestrator(seconds, memory_mib(process.pid, "VmRSS"), address)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _first_answer(stub: TrainerServiceStub, process: subprocess.Popen[bytes], runs: int) -> None:
    while process.poll() is None:
        try:
            total = stub.List(wire.ListRequest(page_size=1), timeout=5).total
        except grpc.RpcError:
            time.sleep(0.01)
        else:
            assert total == runs, f"{total} runs instead of {runs}"
            return
    raise RuntimeError(f"the orchestrator ended with {process.returncode}")
