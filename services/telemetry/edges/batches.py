"""A run's batches of one kind after a position, each once: first from segments, then from the stream.

The stream may be trimmed at any time up to the archive's cursor. A reader that is slower than the trimming
returns to the segments.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.reads import SubjectReader
from runspine.eventlog.subjects import TELEMETRY
from runspine.eventlog.tail import Delivery, Tail
from runspine.services.telemetry.core.batch_numbers import SeenBatches
from runspine.services.telemetry.core.manifest import partition_of
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.core.visibility import Cutoffs, visible_part
from runspine.services.telemetry.edges.archived_history import ArchivedHistory
from runspine.services.telemetry.edges.ended_runs import last_position
from runspine.services.telemetry.edges.ingest import parse
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog, ManifestChain
from runspine.services.telemetry.edges.run_lookup import RunLookup
from runspine.services.telemetry.edges.segment_store import (
    SegmentGoneError,
    SegmentNotStoredError,
    SegmentStore,
)
from runspine.storage.blobs import BlobsUnavailableError
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.run_pb2 import Run

# Last part of telemetry.<run_id>.<attempt>.<kind>.
SUBJECTS = {
    "logs": "log",
    "steps": "step",
    "episodes": "episode",
    "metrics": "metric",
    "envs": "env",
    "evaluations": "evaluation",
}
POLL_SECONDS = 0.5
READ_BATCH = 256


class ReadBatch(NamedTuple):
    """A batch, and whether the reader has caught up with the stream."""

    arrival: Arrival
    # True when no later message was pending.
    live: bool


class BatchReader:
    """Reads a run's batches from the archive and the stream."""

    def __init__(
        self,
        link: NatsConnection,
        event_log: EventLog,
        catalog: ArchiveCatalog,
        store: SegmentStore,
        runs: RunLookup,
    ) -> None:
        self._link = link
        self._log = event_log
        self._catalog = catalog
        self._history = ArchivedHistory(store)
        self._runs = runs

    async def read(self, run_id: str, kind: str, after: int, follow: bool) -> AsyncGenerator[ReadBatch, None]:
        """Batches after a position: the existing ones, or with `follow` all until the run ends."""
        run, decided = await self._runs.get(run_id)
        cutoffs = await self._runs.cutoffs(run_id)
        chain = await self.chain_of(run_id)
        ending = asyncio.ensure_future(self._end(run, decided, follow, kind))
        try:
            position = after
            while not ending.done() or position < ending.result():
                walk = self._pass(chain, ending, run_id, kind, position, cutoffs)
                async with aclosing(walk):
                    async for read in walk:
                        if isinstance(read, int):
                            position = read
                        else:
                            position = read.arrival.position
                            yield read
        finally:
            await cancel_and_wait(ending)

    async def _pass(
        self,
        chain: ManifestChain,
        ending: asyncio.Future[int],
        run_id: str,
        kind: str,
        after: int,
        cutoffs: Cutoffs,
    ) -> AsyncGenerator[ReadBatch | int, None]:
        """Segments and then the stream, until the end or until the stream may have been trimmed too far.
        A number means that everything up to this position was processed."""
        archive = chain.archive
        cursor, seen = archive.cursor, archive.seen.copy(run_id)
        try:
            async with aclosing(
                self._history.arrivals(kind, archive.of(run_id, kind), after, cutoffs)
            ) as found:
                async for arrival in found:
                    yield ReadBatch(arrival, live=False)
        except SegmentGoneError as gone:
            # Replaced by a larger segment during the read: the archive names that one now.
            await chain.refresh()
            if any(str(gone) in (s.key, s.levels_key) for s in chain.archive.of(run_id, kind)):
                raise SegmentNotStoredError(f"{gone} is named in the archive, but does not exist") from gone
            return
        position = max(after, cursor)
        yield position
        # Read from the cursor on, to know the numbers of the batches before `after`.
        async with aclosing(self._tail(chain, ending, run_id, kind, cursor, position)) as deliveries:
            async for delivery in deliveries:
                fresh = _fresh(delivery.data, delivery.sequence, seen, cutoffs)
                if fresh and delivery.sequence > after:
                    yield ReadBatch(fresh, live=delivery.pending == 0)
                elif delivery.sequence > after:
                    yield delivery.sequence

    async def _tail(
        self,
        chain: ManifestChain,
        ending: asyncio.Future[int],
        run_id: str,
        kind: str,
        start: int,
        position: int,
    ) -> AsyncGenerator[Delivery, None]:
        """Deliveries up to the position that `ending` returns."""
        deliveries = Tail(
            self._link, TELEMETRY, after=start, subject=batch_subject(run_id, kind)
        ).deliveries()
        arriving: asyncio.Future[Delivery] | None = None
        checked = -1
        try:
            while not ending.done() or position < ending.result():
                arriving = arriving or asyncio.ensure_future(anext(deliveries))
                waiting: list[asyncio.Future[Any]] = [arriving] if ending.done() else [arriving, ending]
                await asyncio.wait(waiting, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if checked != chain.archive.number:
                    checked = chain.archive.number
                    if any(segment.last > position for segment in chain.archive.of(run_id, kind)):
                        return
                if arriving.done():
                    delivery, arriving = arriving.result(), None
                    position = max(position, delivery.sequence)
                    yield delivery
        finally:
            if arriving:
                await cancel_and_wait(arriving)
            await deliveries.aclose()

    async def _end(self, run: Run, decided: int, follow: bool, kind: str) -> int:
        """The last position of the run's batches. A worker reports an attempt's end after its last batch."""
        if follow:
            await self._runs.wait_for_end(run, decided)
        chain = await self.chain_of(run.id)
        on_stream = await last_position(self._link, batch_subject(run.id, kind))
        return max([on_stream, *(segment.last for segment in chain.archive.of(run.id, kind))])

    async def context_start(self, run_id: str, kind: str, after: int) -> int:
        """A position some batches before `after`, for a reader that must know what preceded it."""
        if not after:
            return 0
        await self._runs.ensure(run_id)
        archive = (await self.chain_of(run_id)).archive
        try:
            start = await self._history.context_start(archive.of(run_id, kind), after)
        except SegmentGoneError:
            return 0
        return min(after, archive.cursor, start)

    async def end(self, run_id: str, kind: str) -> int:
        """Position of the last batch on the stream; 0 when there is none."""
        return await last_position(self._link, batch_subject(run_id, kind))

    async def between(
        self, run_id: str, kind: str, after: int, end: int, seen: SeenBatches, cutoffs: Cutoffs
    ) -> list[Arrival]:
        """New and visible batches on the stream between two positions. Retries until NATS answers."""
        found: list[Arrival] = []
        position = -1
        while position < after < end:
            position = after
            query = {"batch": READ_BATCH, "seq": position + 1, "next_by_subj": batch_subject(run_id, kind)}
            answers = self._link.replies(f"$JS.API.DIRECT.GET.{TELEMETRY}", json.dumps(query).encode())
            try:
                async with aclosing(answers):
                    async for headers, data in answers:
                        after = int(headers["Nats-Sequence"])
                        fresh = _fresh(data, after, seen, cutoffs) if after <= end else None
                        if fresh:
                            found.append(fresh)
                behind = after == position and await self._next(run_id, kind, after) in range(1, end + 1)
            except NatsUnreachableError:
                behind = True
            if behind:
                position = -1
                await asyncio.sleep(0.1)
        return found

    async def _next(self, run_id: str, kind: str, after: int) -> int:
        """The position of the first batch after this one by the leader's word; 0 when there is none. The
        replica that answered may lack the newest."""
        following = await SubjectReader(self._link).next(TELEMETRY, batch_subject(run_id, kind), after)
        return following.sequence if following else 0

    async def chain_of(self, run_id: str) -> ManifestChain:
        """The manifest chain of the run's partition.

        Raises NatsUnreachableError when it is needed and cannot be read.
        """
        chain = self._catalog.chains[partition_of(run_id, len(self._catalog.chains))]
        try:
            await chain.ensure_loaded()
        except BlobsUnavailableError as error:
            # If the stream was never trimmed, it holds everything.
            if (await self._log.extent(TELEMETRY)).first > 1:
                raise NatsUnreachableError(f"the archive cannot be read now: {error}") from error
        return chain


def _fresh(data: bytes, position: int, seen: SeenBatches, cutoffs: Cutoffs) -> Arrival | None:
    batch = parse(data, position)
    if batch is None or not seen.add(batch.run_id, batch.attempt, batch.number):
        return None
    return visible_part(Arrival(position, batch), cutoffs)


def batch_subject(run_id: str, kind: str) -> str:
    return f"telemetry.{run_id}.*.{SUBJECTS[kind]}"
