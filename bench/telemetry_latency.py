"""From the moment a step was made on the trainer to the moment a gRPC subscriber has it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
import numpy as np

from bench.telemetry_durable import Asked, Bench, Wrong
from runspine.wire.v1.telemetry_pb2 import StreamRequest
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub

# Starting up is not what is measured.
WARM_SECONDS = 1.0
OPTIONS = [("grpc.max_receive_message_length", 64 << 20)]


class Latency(NamedTuple):
    """Seconds for a step, and how many steps a second flowed."""

    p50: float
    p99: float
    worst: float
    rate: float
    steps: int


@dataclass(slots=True)
class Arrivals:
    """Blocks as they came: when, how many steps, when the first and the last was made."""

    blocks: list[tuple[float, int, int, int]] = field(default_factory=list)
    missed: int = 0

    async def follow(self, call: Any, steps: int) -> None:
        got = 0
        async for answer in call:
            now = time.time() * 1e6
            self.missed += bool(answer.missed_from)
            for block in answer.blocks:
                got += block.count
                self.blocks.append((now, block.count, block.first_at, block.last_at))
            if got >= steps:
                return
        raise Wrong(f"the stream ended after {got} of {steps} steps")

    def waits(self, after: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """When each step was made, and how long it took from then; steps of a block are evenly spaced."""
        made, waited = [np.empty(0)], [np.empty(0)]
        for now, count, first, last in self.blocks:
            at = np.linspace(first, last, count)
            made.append(at)
            waited.append(now - at)
        when, took = np.concatenate(made), np.concatenate(waited)
        return when[when >= after] / 1e6, took[when >= after] / 1e6


async def measure_latency(bench: Bench, asked: Asked) -> Latency:
    """One subscriber for each run, all of them behind one connection."""
    arrivals = [Arrivals() for _ in range(asked.trainers)]
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(bench.group(asked))
        address = bench.stack.addresses["telemetry"]
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address, options=OPTIONS))
        stub: Any = TelemetryServiceStub(channel)
        calls = [
            stub.StreamSteps(StreamRequest(run_id=run_id, follow=True), metadata=bench.auth)
            for run_id in group.runs
        ]
        following = [
            asyncio.create_task(each.follow(call, asked.steps))
            for each, call in zip(arrivals, calls, strict=True)
        ]
        # Until each is being served: what comes later is live for it.
        await asyncio.sleep(1.0)
        group.begin()
        await asyncio.gather(*following)
        await bench.ended(group)
        await bench.archived(group)
        await bench.prove(group)
    if missed := sum(each.missed for each in arrivals):
        raise Wrong(f"the subscriber was too slow {missed} times")
    return _summed(arrivals, (group.began + WARM_SECONDS) * 1e6)


def _summed(arrivals: list[Arrivals], after: float) -> Latency:
    parts = [each.waits(after) for each in arrivals]
    made, waited = (np.concatenate(column) for column in zip(*parts, strict=True))
    p50, p99 = np.percentile(waited, [50, 99]).tolist()
    rate = len(made) / float(made.max() - made.min())
    return Latency(p50, p99, float(waited.max()), rate, len(made))
