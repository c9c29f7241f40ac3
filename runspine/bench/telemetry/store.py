"""Measures the telemetry store: bytes at rest of a real env, and how fast a waiting stream is archived.

`python -m runspine.bench.telemetry.store [--steps N]`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from runspine.bench.kit.cartpole import POLICIES, as_batches, play
from runspine.bench.kit.figures import Report
from runspine.bench.kit.ports import free_port
from runspine.bench.kit.screen import Announce
from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.eventlog import Version
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.streams import ensure_streams
from runspine.eventlog.subjects import run_subject, telemetry_subject
from runspine.ids import new_ulid
from runspine.services.telemetry.core.rows import KINDS, Arrival
from runspine.services.telemetry.core.segments import make_segments
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.settings import ServiceSettings
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.wire.v1.facts_pb2 import Fact, RunSubmitted
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub


def measure_bytes(report: Report, steps: int, announce: Announce) -> None:
    for name, policy in POLICIES.items():
        announce(f"{steps:,} steps of CartPole, {name} policy")
        batches = as_batches("r", play(policy, steps))
        sizes = dict.fromkeys(KINDS, 0)
        for kind in KINDS:
            arrivals = [Arrival(n, b) for n, b in enumerate(batches, 1) if b.WhichOneof("kind") == kind]
            for made in make_segments("r", kind, arrivals, {}) if arrivals else []:
                sizes[kind] += sum(map(len, made.objects.values()))
        a_step = sizes["steps"] / steps
        report.add(
            f"bytes per step at rest, {name} policy", a_step, "B", target="≤ 20 B", met=a_step <= 20,
            key="bytes",
            context=f"with episodes, resets and chart levels {sum(sizes.values()) / steps:.1f} B",
        )  # fmt: skip


@asynccontextmanager
async def service(stack: Stack, **settings: str) -> AsyncIterator[tuple[subprocess.Popen[bytes], Any]]:
    address = settings.get("RUNSPINE_GRPC_ADDRESS") or f"127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        **_s3(stack),
        "RUNSPINE_NATS_URL": f"nats://{stack.addresses['nats']}",
        "RUNSPINE_NATS_USER": "telemetry",
        "RUNSPINE_NATS_PASSWORD": stack.credentials.nats["telemetry"],
        "RUNSPINE_GRPC_ADDRESS": address,
        "RUNSPINE_LOG_LEVEL": "warning",
        **settings,
    }
    process = subprocess.Popen([sys.executable, "-m", "runspine.services.telemetry"], env=environment)
    try:
        options = [("grpc.max_receive_message_length", 64 << 20)]
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            await asyncio.wait_for(channel.channel_ready(), 120)
            yield process, TelemetryServiceStub(channel)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _s3(stack: Stack) -> dict[str, str]:
    return {
        "RUNSPINE_S3_ENDPOINT": stack.addresses["s3"],
        "RUNSPINE_S3_ACCESS_KEY": stack.credentials.s3_access_key,
        "RUNSPINE_S3_SECRET_KEY": stack.credentials.s3_secret_key,
    }


def blobs_of(stack: Stack) -> RangedS3Blobs:
    settings = {name.removeprefix("RUNSPINE_").lower(): value for name, value in _s3(stack).items()}
    return RangedS3Blobs(ServiceSettings(**settings))  # type: ignore[arg-type]


@asynccontextmanager
async def admin(stack: Stack) -> AsyncIterator[tuple[Publisher, JetStreamLog]]:
    account = NatsAccount(
        f"nats://{stack.addresses['nats']}", "admin", stack.credentials.nats["admin"], "_INBOX_admin"
    )
    async with NatsConnection(account, "bench") as link, Publisher(link) as publisher:
        await ensure_streams(link)
        yield publisher, JetStreamLog(link, publisher)


async def submit(log: JetStreamLog) -> str:
    run_id = new_ulid()
    fact = Fact(run_submitted=RunSubmitted(run_id=run_id, name="bench"))
    await log.append(run_subject(run_id), [fact], expected=Version())
    return run_id


async def measure_ingest(report: Report, stack: Stack, steps: int, announce: Announce) -> None:
    announce(f"archiving {steps:,} steps that wait on the stream")
    batches = as_batches("", play(POLICIES["random"], 200_000))
    async with admin(stack) as (publisher, log):
        run_id, number, sent, last = await submit(log), 0, 0, 0
        while sent < steps:
            for batch in batches:
                number += 1
                batch.run_id, batch.number = run_id, number
                kind = {"steps": "step", "episodes": "episode", "envs": "env"}[batch.WhichOneof("kind") or ""]
                done = await publisher.start(
                    telemetry_subject(run_id, 1, kind), batch.SerializeToString(), {MESSAGE_ID: str(number)}
                )
                sent += sum(block.count for block in batch.steps.blocks)
            last = await done
        began = time.perf_counter()
        # The remainder after the last full commit must not wait for half a minute.
        async with service(stack, RUNSPINE_INGEST_COMMIT_SECONDS="1") as (process, _):
            chain = ManifestChain(blobs_of(stack), 0, 1)
            while chain.archive.cursor < last:
                await asyncio.sleep(0.1)
                await chain.refresh()
            taken = time.perf_counter() - began
            peak = memory_mib(process.pid, "VmHWM")
    held = sum(segment.rows for segment in chain.archive.of(run_id, "steps"))
    rate = sent / taken
    report.add(
        "steps archived from the stream", rate, "steps/s", target="≥ 100,000/s",
        met=rate >= 100_000 and held == sent,
        context=f"{held:,} of {sent:,} steps in segments; start of the process included; peak {peak:.0f} MiB",
    )  # fmt: skip


def memory_mib(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


async def bench_telemetry_store(steps: int, announce: Announce) -> Report:
    report = Report("Telemetry store")
    measure_bytes(report, 100_000, announce)
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        async with running_stack(Path(scratch) / "ingest", only={"nats", "s3"}) as stack:
            await measure_ingest(report, stack, steps, announce)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000)
    chosen = parser.parse_args()
    announce: Announce = lambda text: print(text, file=sys.stderr)  # noqa: E731
    print(asyncio.run(bench_telemetry_store(chosen.steps, announce)).as_markdown())
