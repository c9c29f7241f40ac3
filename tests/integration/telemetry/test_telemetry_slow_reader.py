"""A subscriber that takes one message a second: nobody waits for it, and nothing is kept from it."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.telemetry import Archived, TelemetryProcess, step_batch, steps

EOF: Any = vars(grpc.aio)["EOF"]
BATCHES, STEPS = 300, 5_000
# What the service may hold for a follower, and what archiving the same flow takes in addition.
WINDOW_MIB, ROOM_MIB = 1, 64


async def flow(archived: Archived, run_id: str) -> None:
    """A million and a half steps, until they are archived: sooner than at the pace of the reader."""
    for n in range(BATCHES):
        block = steps(f"e{n}", 0, [float(n)] * STEPS, n * STEPS)
        position = await archived.emit(run_id, steps=step_batch(block))
    await archived.archived_to(position, BATCHES * 0.6)


async def take_slowly(call: Any, into: list[Any], flowing: asyncio.Event) -> None:
    while not flowing.is_set():
        into.append(await call.read())
        await asyncio.sleep(1.0)


async def highest_rss(service: TelemetryProcess, until: asyncio.Event) -> float:
    highest = service.rss_mib
    while not until.is_set():
        highest = max(highest, service.rss_mib)
        await asyncio.sleep(0.05)
    return highest


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_one_message_a_second_neither_stalls_ingest_nor_grows_memory(archived: Archived) -> None:
    service = archived.start(RUNSPINE_FOLLOW_MIB=str(WINDOW_MIB))
    run_id = await archived.rig.submit("true")
    # The same flow before, with nobody there: what archiving takes in memory, also when it is not the first.
    done = asyncio.Event()
    watching = asyncio.create_task(highest_rss(service, done))
    for _ in range(2):
        await flow(archived, await archived.rig.submit("true"))
    done.set()
    before = await watching
    await archived.emit(run_id, steps=step_batch(steps("first", 0, [0.0], 0)))
    async with archived.stub(service) as stub:
        call = stub.StreamSteps(wire.StreamRequest(run_id=run_id, follow=True))
        taken, flowed = [await call.read()], asyncio.Event()
        slow = asyncio.create_task(take_slowly(call, taken, flowed))
        watching = asyncio.create_task(highest_rss(service, flowed))
        await flow(archived, run_id)
        flowed.set()
        highest = await watching
        await slow
        while (answer := await call.read()) is not EOF:
            taken.append(answer)
            if answer.blocks[-1].episode_id == f"e{BATCHES - 1}":
                break
        call.cancel()
        missed = [(a.missed_from, a.missed_to) for a in taken if a.missed_from]
        assert missed, "what flowed does not fit into the window: it must have been reported"
        assert highest < before + WINDOW_MIB + ROOM_MIB, f"{before:.0f} MiB became {highest:.0f} MiB"
        for first, last in missed:
            again = stub.StreamSteps(wire.StreamRequest(run_id=run_id, after=first - 1))
            async for answer in again:
                if answer.position > last:
                    break
                taken.append(answer)
    received = [(block.episode_id, block.count) for answer in taken for block in answer.blocks]
    assert sorted(received) == sorted([("first", 1), *((f"e{n}", STEPS) for n in range(BATCHES))])
