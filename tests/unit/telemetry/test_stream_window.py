"""The window between a run's batches and a caller that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.edges.batches import ReadBatch
from runspine.services.telemetry.edges.stream_window import StreamWindow
from runspine.wire.v1 import telemetry_pb2 as wire

LIMIT, SIZE, COUNT = 1_000_000, 100_000, 200


def batch(n: int) -> wire.Batch:
    return wire.Batch(logs=wire.LogBatch(lines=[wire.LogLine(text=f"{n:06d}" + "x" * SIZE)]))


class CountedArrival(Arrival):
    """Counts how many of its kind are alive. (Neither tuples nor messages can be referred to weakly.)"""

    alive = 0

    def __init__(self, position: int, batch: wire.Batch) -> None:
        type(self).alive += 1

    def __del__(self) -> None:
        type(self).alive -= 1


class Source:
    """Batches one after another."""

    def __init__(self, live: bool) -> None:
        self.read = 0
        self._live = live
        self._others = CountedArrival.alive

    @property
    def held_bytes(self) -> int:
        return (CountedArrival.alive - self._others) * SIZE

    async def batches(self) -> AsyncGenerator[ReadBatch, None]:
        for n in range(1, COUNT + 1):
            self.read = n
            yield ReadBatch(CountedArrival(n, batch(n)), self._live)
            await asyncio.sleep(0)


async def let_it_flow() -> None:
    """Nobody reads for many more turns of the event loop than the source needs."""
    for _ in range(50 * COUNT):
        await asyncio.sleep(0)


async def test_live_batches_that_do_not_fit_are_skipped_and_freed() -> None:
    source = Source(live=True)
    window = StreamWindow(LIMIT).through(source.batches())
    first = await anext(window)
    assert (first.arrival.position, first.missed_from) == (1, 0)
    await let_it_flow()
    assert source.read == COUNT, "a caller that does not read holds nothing up"
    # The one that was read last stays until the caller asks for the next.
    assert source.held_bytes <= LIMIT + SIZE
    rest = [given async for given in window]
    kept = [given.arrival.position for given in rest]
    assert (rest[0].missed_from, rest[0].missed_to) == (2, kept[0] - 1)
    assert kept == list(range(kept[0], COUNT + 1))


async def test_history_waits_for_the_caller() -> None:
    source = Source(live=False)
    window = StreamWindow(LIMIT).through(source.batches())
    await anext(window)
    await let_it_flow()
    assert source.read < COUNT
    assert source.held_bytes <= LIMIT + 3 * SIZE
    rest = [given async for given in window]
    assert [given.arrival.position for given in rest] == list(range(2, COUNT + 1))
    assert not any(given.missed_from for given in rest)
