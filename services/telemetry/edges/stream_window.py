"""A bounded window between a run's batches and a slow caller.

History waits for the caller. Live batches do not: when the window is full the oldest batch is skipped, and
the next answer states the positions that the caller missed and can request again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.edges.batches import ReadBatch
from runspine.services.telemetry.edges.metrics import MISSED
from runspine.tasks import cancel_and_wait


class WindowedBatch(NamedTuple):
    """A batch for the caller, and the positions skipped before it."""

    arrival: Arrival
    missed_from: int = 0
    missed_to: int = 0


class StreamWindow:
    """Passes batches from a source to a caller, with at most `limit` bytes in between."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: deque[tuple[Arrival, int]] = deque()
        self._bytes = 0
        self._missed_from = 0
        self._missed_to = 0
        self._changed = asyncio.Condition()
        self._live = False
        self._done = False

    async def through(self, source: AsyncGenerator[ReadBatch, None]) -> AsyncGenerator[WindowedBatch, None]:
        """The batches of the source, at the caller's pace."""
        filling = asyncio.ensure_future(self._fill(source))
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._held or self._done)
                    if not self._held:
                        break
                    batch = self._take()
                    self._changed.notify_all()
                yield batch
            filling.result()
        finally:
            await cancel_and_wait(filling)

    def _take(self) -> WindowedBatch:
        arrival, size = self._held.popleft()
        self._bytes -= size
        batch = WindowedBatch(arrival, self._missed_from, self._missed_to)
        self._missed_from = self._missed_to = 0
        return batch

    async def _fill(self, source: AsyncGenerator[ReadBatch, None]) -> None:
        try:
            async with aclosing(source):
                async for read in source:
                    self._live = self._live or read.live
                    await self._add(read.arrival)
        finally:
            async with self._changed:
                self._done = True
                self._changed.notify_all()

    async def _add(self, arrival: Arrival) -> None:
        size = arrival.batch.ByteSize()
        async with self._changed:
            if not self._live:
                await self._changed.wait_for(lambda: self._bytes < self._limit)
            self._held.append((arrival, size))
            self._bytes += size
            while self._live and self._bytes > self._limit and len(self._held) > 1:
                self._skip_oldest()
            self._changed.notify_all()

    def _skip_oldest(self) -> None:
        arrival, size = self._held.popleft()
        self._bytes -= size
        self._missed_from = self._missed_from or arrival.position
        self._missed_to = arrival.position
        MISSED.inc()
