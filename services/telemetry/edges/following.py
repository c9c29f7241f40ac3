"""Between a run's batches and a caller that may be slow: a bounded window.

What is history waits for the caller. What is live does not: when the window is full the oldest is
passed over, and the caller is told which positions it missed, to ask for them again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from runspine.tasks import put_down
from services.telemetry.core.rows import Arrival
from services.telemetry.edges.batches import Read
from services.telemetry.edges.metrics import MISSED


class Passed(NamedTuple):
    """A batch for the caller, and the positions before it that were passed over."""

    arrival: Arrival
    missed_from: int = 0
    missed_to: int = 0


class Window:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: deque[tuple[Arrival, int]] = deque()
        self._bytes = 0
        self._missed_from = 0
        self._missed_to = 0
        self._changed = asyncio.Condition()
        self._live = False
        self._done = False

    async def through(self, source: AsyncGenerator[Read, None]) -> AsyncGenerator[Passed, None]:
        """What the source gives, at the caller's pace."""
        filling = asyncio.ensure_future(self._fill(source))
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._held or self._done)
                    if not self._held:
                        break
                    passed = self._take()
                    self._changed.notify_all()
                yield passed
            filling.result()
        finally:
            await put_down(filling)

    def _take(self) -> Passed:
        arrival, size = self._held.popleft()
        self._bytes -= size
        passed = Passed(arrival, self._missed_from, self._missed_to)
        self._missed_from = self._missed_to = 0
        return passed

    async def _fill(self, source: AsyncGenerator[Read, None]) -> None:
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
                self._pass_over()
            self._changed.notify_all()

    def _pass_over(self) -> None:
        arrival, size = self._held.popleft()
        self._bytes -= size
        self._missed_from = self._missed_from or arrival.position
        self._missed_to = arrival.position
        MISSED.inc()
