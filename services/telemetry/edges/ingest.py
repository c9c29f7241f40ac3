"""Takes the TELEMETRY stream into the archive: gathers, writes segments, commits.

One process of a partition leads. Whoever loses a commit to another stands back until that other has
been silent for long enough; what it had gathered is read again from the committed cursor.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import structlog
from google.protobuf.message import DecodeError

from runspine.blobs import BlobsUnavailable
from runspine.log import EventLog
from runspine.log.link import Link, Unreachable
from runspine.log.subjects import TELEMETRY
from runspine.log.tail import Delivery, Tail
from runspine.tasks import run_together
from runspine.wire.v1.telemetry_pb2 import Batch
from services.telemetry.core import segments
from services.telemetry.core.gathering import Gathered, Gatherer
from services.telemetry.core.manifest import Broken, partition_of
from services.telemetry.core.rows import Arrival, kind_of
from services.telemetry.core.segments import Made
from services.telemetry.edges import metrics
from services.telemetry.edges.chain import Chain, Lost
from services.telemetry.edges.compactor import Compactor
from services.telemetry.edges.endings import Endings
from services.telemetry.edges.segment_store import Gone, NotStored, SegmentStore
from services.telemetry.settings import TelemetrySettings

log = structlog.get_logger()

AGAIN_SECONDS = 1.0
LOOK_SECONDS = 0.1
# Gathering goes on during a commit, up to this many times the size of one.
AHEAD = 2


class WentBackwards(Exception):
    """The stream is shorter than what was archived of it."""


class Ingest:
    def __init__(
        self, link: Link, event_log: EventLog, chain: Chain, store: SegmentStore, compactor: Compactor,
        settings: TelemetrySettings,
    ) -> None:  # fmt: skip
        self._link = link
        self._log = event_log
        self._chain = chain
        self._store = store
        self._compactor = compactor
        self._settings = settings
        self._endings = Endings(link, event_log)
        self._gatherer = Gatherer(0, chain.archive.seen.copy())
        self._room = asyncio.Event()
        self._since = 0.0
        # Messages on the stream behind the last that was read.
        self._waiting = 0
        self._writer = f"{link.name}-{link.token}"
        self.trouble = "waiting for the archive"

    async def run(self) -> None:
        """For ever: lead, or stand back."""
        while True:
            try:
                await self._begin()
                await self._lead()
            except Lost as lost:
                metrics.LOST.inc()
                log.warning("ingest.stands_back", reason=str(lost))
                self.trouble = ""
                await self._stand_back()
            except (BlobsUnavailable, Broken, Gone, NotStored, Unreachable, WentBackwards) as error:
                self.trouble = str(error)
                log.warning("ingest.again", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            finally:
                metrics.LEADING.set(0)

    async def _begin(self) -> None:
        """From the committed cursor on."""
        await self._endings.begin()
        await self._chain.refresh()
        archive = self._chain.archive
        end = (await self._log.extent(TELEMETRY)).last
        if end < archive.cursor:
            raise WentBackwards(
                f"{TELEMETRY} ends at {end}, but {archive.cursor} was archived: it was made anew or lost "
                "its end; what comes next would be taken for what is archived already"
            )
        self._gatherer = Gatherer(archive.cursor, archive.seen.copy())
        self._since = time.monotonic()
        self._room.set()
        self.trouble = ""
        metrics.LEADING.set(1)
        log.info("ingest.leads", partition=archive.partition, manifest=archive.number, cursor=archive.cursor)

    async def _lead(self) -> None:
        await run_together(self._read(), self._commit_when_due(), self._endings.follow())

    async def _stand_back(self) -> None:
        """Until nobody has committed for a while."""
        seen, since = self._chain.archive.number, time.monotonic()
        while time.monotonic() - since < self._settings.ingest_takeover_seconds:
            await asyncio.sleep(min(AGAIN_SECONDS, self._settings.ingest_takeover_seconds / 4))
            try:
                await self._chain.refresh()
            except BlobsUnavailable:
                # Whoever leads cannot commit now either.
                since = time.monotonic()
            if self._chain.archive.number != seen:
                seen, since = self._chain.archive.number, time.monotonic()

    async def _read(self) -> None:
        limit = AHEAD * (self._settings.ingest_commit_mib << 20)
        tail = Tail(self._link, TELEMETRY, after=self._gatherer.now.cursor)
        async with aclosing(tail.deliveries()) as deliveries:
            async for delivery in deliveries:
                self._take(delivery)
                self._waiting = delivery.pending
                self._tell_lag()
                while self._gatherer.now.bytes >= limit:
                    self._room.clear()
                    await self._room.wait()

    def _take(self, delivery: Delivery) -> None:
        position, data = delivery.sequence, delivery.message.data
        run_id = delivery.message.subject.split(".")[1]
        if partition_of(run_id, self._chain.partitions) != self._chain.partition:
            self._gatherer.pass_over(position)
            return
        batch = parse(data, position)
        if batch is None or batch.run_id != run_id:
            metrics.MALFORMED.inc()
            self._gatherer.pass_over(position)
        elif self._gatherer.take(Arrival(position, batch), len(data), delivery.stored_at):
            metrics.BATCHES.labels(kind_of(batch)).inc()
            metrics.BYTES.inc(len(data))
        else:
            metrics.DUPLICATES.inc()

    def _tell_lag(self) -> None:
        now = self._gatherer.now
        metrics.LAG.set(self._waiting + now.messages)
        metrics.BUFFERED.set(now.bytes)

    async def _commit_when_due(self) -> None:
        while True:
            if self._due():
                await self._commit()
            ended = self._endings.reached(self._chain.archive.cursor)
            await self._compactor.run(self._chain, ended, self._writer)
            await asyncio.sleep(LOOK_SECONDS)

    def _due(self) -> bool:
        now = self._gatherer.now
        if not now.messages:
            self._since = time.monotonic()
            return False
        return (
            now.bytes >= self._settings.ingest_commit_mib << 20
            or time.monotonic() - self._since >= self._settings.ingest_commit_seconds
            or self._endings.waits_for({run_id for run_id, _ in now.batches}, now.cursor)
        )

    async def _commit(self) -> None:
        with metrics.COMMIT_SECONDS.time():
            taken, covered = self._gatherer.cut()
            self._since = time.monotonic()
            self._room.set()
            made = await self._write(taken)
            manifest = self._chain.archive.next(
                cursor=taken.cursor,
                at=time.time_ns() // 1000,
                writer=self._writer,
                added=[each.segment for each in made],
                covered=covered,
            )
            await self._chain.commit(manifest)
        metrics.COMMITS.inc()
        # Here too: on a stream where nothing more comes nobody else would say that nothing waits.
        self._tell_lag()
        for each in made:
            metrics.ROWS.labels(each.segment.kind).inc(each.segment.rows)
        if taken.oldest:
            now = time.time_ns() // 1000
            metrics.BATCH_AGE.observe((now - taken.oldest) / 1e6)
            metrics.BATCH_AGE.observe((now - taken.newest) / 1e6)
        log.debug("ingest.committed", manifest=manifest.number, cursor=manifest.cursor, segments=len(made))

    async def _write(self, taken: Gathered) -> list[Made]:
        """Make and store the segments, a few at a time; their bytes are let go as soon as they are stored."""
        made: list[Made] = []
        for (run_id, kind), arrivals in taken.batches.items():
            before = self._chain.archive.before(run_id, kind)
            for each in await asyncio.to_thread(segments.make, run_id, kind, arrivals, before):
                await self._store.put(each)
                made.append(Made(each.segment, {}))
        return made


def parse(data: bytes, position: int) -> Batch | None:
    """The batch, or None for what is not one."""
    try:
        return Batch.FromString(data) if data else None
    except DecodeError:
        log.error("telemetry.unreadable", position=position)
        return None
