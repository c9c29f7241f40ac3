"""Latency from a step on the trainer to a gRPC subscriber."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
import numpy as np

from runspine.bench.telemetry.durable import DurableBench, TrainerLoad, WrongArchiveError
from runspine.wire.v1.telemetry_pb2 import StreamRequest
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub

# Not measured at the start.
WARM_SECONDS = 1.0
OPTIONS = [("grpc.max_receive_message_length", 64 << 20)]


class Latency(NamedTuple):
    """Seconds of a step, and steps per second."""

    p50: float
    p99: float
    worst: float
    rate: float
    steps: int


@dataclass(slots=True)
class Arrivals:
    """Received blocks: time of arrival, steps, and times of the first and last step."""

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
        raise WrongArchiveError(f"the stream ended after {got} of {steps} steps")

    def waits(self, after: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Time of each step, and its latency; steps of a block are taken as evenly spaced."""
        made, waited = [np.empty(0)], [np.empty(0)]
        for now, count, first, last in self.blocks:
            at = np.linspace(first, last, count)
            made.append(at)
            waited.append(now - at)
        when, took = np.concatenate(made), np.concatenate(waited)
        return when[when >= after] / 1e6, took[when >= after] / 1e6


async def measure_latency(bench: DurableBench, load: TrainerLoad) -> Latency:
    """Measure with one subscriber for each run, on one connection."""
    arrivals = [Arrivals() for _ in range(load.trainers)]
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(bench.group(load))
        address = bench.stack.addresses["telemetry"]
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address, options=OPTIONS))
        stub: Any = TelemetryServiceStub(channel)
        calls = [
            stub.StreamSteps(StreamRequest(run_id=run_id, follow=True), metadata=bench.auth)
            for run_id in group.runs
        ]
        following = [
            asyncio.create_task(each.follow(call, load.steps))
            for each, call in zip(arrivals, calls, strict=True)
        ]
        # Until each subscriber is served: later steps are live.
        await asyncio.sleep(1.0)
        group.begin()
        await asyncio.gather(*following)
        await bench.ended(group)
        await bench.archived(group)
        await bench.prove(group)
    if missed := sum(each.missed for each in arrivals):
        raise WrongArchiveError(f"the subscriber was too slow {missed} times")
    return _summed(arrivals, (group.began + WARM_SECONDS) * 1e6)


def _summed(arrivals: list[Arrivals], after: float) -> Latency:
    parts = [each.waits(after) for each in arrivals]
    made, waited = (np.concatenate(column) for column in zip(*parts, strict=True))
    p50, p99 = np.percentile(waited, [50, 99]).tolist()
    rate = len(made) / float(made.max() - made.min())
    return Latency(p50, p99, float(waited.max()), rate, len(made))
