"""A run's batches of one kind from a position on, each once: from segments first, then from the stream.

The stream may be trimmed at any time behind what is archived. A reader that was slower than that
goes back to the segments.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from runspine.blobs import BlobsUnavailable
from runspine.log import EventLog
from runspine.log.link import Link, Unreachable
from runspine.log.subjects import TELEMETRY
from runspine.log.tail import Delivery, Tail
from runspine.tasks import put_down
from runspine.wire.v1.run_pb2 import Run
from services.telemetry.core.manifest import partition_of
from services.telemetry.core.rows import Arrival
from services.telemetry.core.seen import Seen
from services.telemetry.core.visibility import Cutoffs, shown
from services.telemetry.edges.chain import Catalog, Chain
from services.telemetry.edges.endings import last_position
from services.telemetry.edges.history import History
from services.telemetry.edges.ingest import parse
from services.telemetry.edges.runs import Runs
from services.telemetry.edges.segment_store import Gone, NotStored, SegmentStore

# Last part of telemetry.<run_id>.<attempt>.<kind>.
SUBJECTS = {
    "logs": "log",
    "steps": "step",
    "episodes": "episode",
    "metrics": "metric",
    "envs": "env",
    "evaluations": "evaluation",
}
LOOK_SECONDS = 0.5
READ_BATCH = 256


class Read(NamedTuple):
    arrival: Arrival
    # Nothing more was waiting behind it.
    live: bool


class BatchReader:
    def __init__(
        self, link: Link, event_log: EventLog, catalog: Catalog, store: SegmentStore, runs: Runs
    ) -> None:
        self._link = link
        self._log = event_log
        self._catalog = catalog
        self._history = History(store)
        self._runs = runs

    async def read(self, run_id: str, kind: str, after: int, follow: bool) -> AsyncGenerator[Read, None]:
        """Batches after a position: those there are, or with `follow` all there will be."""
        run, decided = await self._runs.get(run_id)
        cutoffs = await self._runs.cutoffs(run_id)
        chain = await self.chain_of(run_id)
        ending = asyncio.ensure_future(self._end(run, decided, follow, kind))
        try:
            position = after
            while not ending.done() or position < ending.result():
                walk = self._once(chain, ending, run_id, kind, position, cutoffs)
                async with aclosing(walk):
                    async for read in walk:
                        if isinstance(read, int):
                            position = read
                        else:
                            position = read.arrival.position
                            yield read
        finally:
            await put_down(ending)

    async def _once(
        self, chain: Chain, ending: asyncio.Future[int], run_id: str, kind: str, after: int, cutoffs: Cutoffs
    ) -> AsyncGenerator[Read | int, None]:
        """Segments and then the stream, until the end or until the stream may have been trimmed too far.
        A number says that everything up to it was dealt with."""
        archive = chain.archive
        cursor, seen = archive.cursor, archive.seen.copy(run_id)
        try:
            async with aclosing(
                self._history.arrivals(kind, archive.of(run_id, kind), after, cutoffs)
            ) as found:
                async for arrival in found:
                    yield Read(arrival, live=False)
        except Gone as gone:
            # Replaced by a larger one while it was read: the archive names that one now.
            await chain.refresh()
            if any(str(gone) in (s.key, s.levels_key) for s in chain.archive.of(run_id, kind)):
                raise NotStored(f"{gone} is named in the archive, but is not there") from gone
            return
        position = max(after, cursor)
        yield position
        # From the cursor on, so as to know which batches came before `after`.
        async with aclosing(self._tail(chain, ending, run_id, kind, cursor, position)) as deliveries:
            async for delivery in deliveries:
                fresh = _fresh(delivery.message.data, delivery.sequence, seen, cutoffs)
                if fresh and delivery.sequence > after:
                    yield Read(fresh, live=delivery.pending == 0)
                elif delivery.sequence > after:
                    yield delivery.sequence

    async def _tail(
        self, chain: Chain, ending: asyncio.Future[int], run_id: str, kind: str, start: int, position: int
    ) -> AsyncGenerator[Delivery, None]:
        """Deliveries up to the position that `ending` finds, once it finds one."""
        deliveries = Tail(self._link, TELEMETRY, after=start, subject=subject_of(run_id, kind)).deliveries()
        arriving: asyncio.Future[Delivery] | None = None
        looked = -1
        try:
            while not ending.done() or position < ending.result():
                arriving = arriving or asyncio.ensure_future(anext(deliveries))
                waiting: list[asyncio.Future[Any]] = [arriving] if ending.done() else [arriving, ending]
                await asyncio.wait(waiting, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if looked != chain.archive.number:
                    looked = chain.archive.number
                    if any(segment.last > position for segment in chain.archive.of(run_id, kind)):
                        return
                if arriving.done():
                    delivery, arriving = arriving.result(), None
                    position = max(position, delivery.sequence)
                    yield delivery
        finally:
            if arriving:
                await put_down(arriving)
            await deliveries.aclose()

    async def _end(self, run: Run, decided: int, follow: bool, kind: str) -> int:
        """The last position there will be. A worker says that an attempt ended after its last batch."""
        if follow:
            await self._runs.ended(run, decided)
        chain = await self.chain_of(run.id)
        on_stream = await last_position(self._link, subject_of(run.id, kind))
        return max([on_stream, *(segment.last for segment in chain.archive.of(run.id, kind))])

    async def end(self, run_id: str, kind: str) -> int:
        """Where the last batch is on the stream."""
        return await last_position(self._link, subject_of(run_id, kind))

    async def between(
        self, run_id: str, kind: str, after: int, end: int, seen: Seen, cutoffs: Cutoffs
    ) -> list[Arrival]:
        """What is on the stream between two positions, not seen yet, and shown. Asks until it is answered."""
        found: list[Arrival] = []
        position = -1
        while position < after < end:
            position = after
            asked = {"batch": READ_BATCH, "seq": position + 1, "next_by_subj": subject_of(run_id, kind)}
            answers = self._link.replies(f"$JS.API.DIRECT.GET.{TELEMETRY}", json.dumps(asked).encode())
            try:
                async with aclosing(answers):
                    async for headers, data in answers:
                        after = int(headers["Nats-Sequence"])
                        fresh = _fresh(data, after, seen, cutoffs) if after <= end else None
                        if fresh:
                            found.append(fresh)
            except Unreachable:
                position = -1
                await asyncio.sleep(0.1)
        return found

    async def chain_of(self, run_id: str) -> Chain:
        """The archive the run lies in. Raises Unreachable when it cannot be read and would be needed."""
        chain = self._catalog.chains[partition_of(run_id, len(self._catalog.chains))]
        try:
            await chain.ensure_loaded()
        except BlobsUnavailable as error:
            # Of a stream that was never trimmed, nothing is missing without the archive.
            if (await self._log.extent(TELEMETRY)).first > 1:
                raise Unreachable(f"the archive cannot be read now: {error}") from error
        return chain


def _fresh(data: bytes, position: int, seen: Seen, cutoffs: Cutoffs) -> Arrival | None:
    batch = parse(data, position)
    if batch is None or not seen.add(batch.run_id, batch.attempt, batch.number):
        return None
    return shown(Arrival(position, batch), cutoffs)


def subject_of(run_id: str, kind: str) -> str:
    return f"telemetry.{run_id}.*.{SUBJECTS[kind]}"
