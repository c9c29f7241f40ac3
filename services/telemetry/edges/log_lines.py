"""A run's log lines after a position, those of each attempt in order."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from runspine.services.telemetry.core.line_order import LineOrder
from runspine.services.telemetry.core.rows import LOGS, Arrival
from runspine.services.telemetry.edges.batches import BatchReader


class LogReader:
    """Reads log lines from the archive and the stream."""

    def __init__(self, batches: BatchReader) -> None:
        self._batches = batches

    async def read(self, run_id: str, after: int, follow: bool) -> AsyncGenerator[Arrival, None]:
        """Batches of lines after a position: the existing ones, or with `follow` all until the run ends.

        A batch that had to wait for an earlier one has the position of the batch before it: a caller that
        resumes there gets it again rather than not at all.
        """
        order = LineOrder(after)
        start = await self._batches.context_start(run_id, LOGS, after)
        async with aclosing(self._batches.read(run_id, LOGS, start, follow)) as reads:
            async for read in reads:
                if read.arrival.position <= after:
                    order.note(read.arrival)
                    continue
                for arrival in order.add(read.arrival):
                    yield arrival
        for arrival in order.rest():
            yield arrival
