"""Archives the TELEMETRY stream: gathers batches, writes segments, commits manifests.

One process per partition leads. A process that loses a commit to another waits on standby until no commit
was made for the takeover time; what it had gathered is read again from the committed cursor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing

import structlog
from google.protobuf.message import DecodeError

from runspine.clock import now_micros
from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.subjects import TELEMETRY
from runspine.eventlog.tail import Delivery, Tail
from runspine.services.telemetry.core import segments
from runspine.services.telemetry.core.commit_gatherer import CommitGatherer, PendingCommit
from runspine.services.telemetry.core.manifest import ManifestChainError, partition_of
from runspine.services.telemetry.core.rows import Arrival, batch_kind
from runspine.services.telemetry.core.segments import NewSegment
from runspine.services.telemetry.edges import metrics
from runspine.services.telemetry.edges.compactor import Compactor
from runspine.services.telemetry.edges.ended_runs import EndedRuns
from runspine.services.telemetry.edges.manifest_chain import CommitLostError, ManifestChain
from runspine.services.telemetry.edges.segment_store import (
    SegmentGoneError,
    SegmentNotStoredError,
    SegmentStore,
)
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage.blobs import BlobsUnavailableError
from runspine.tasks import run_together
from runspine.wire.v1.telemetry_pb2 import Batch

log = structlog.get_logger()

RETRY_SECONDS = 1.0
POLL_SECONDS = 0.1
# Gathering continues during a commit, up to this many times the size of a commit.
MAX_COMMITS_AHEAD = 2


class StreamWentBackwardsError(Exception):
    """The stream ends before the archive's cursor."""


class Ingest:
    """The ingest of one partition."""

    def __init__(
        self, link: NatsConnection, event_log: EventLog, chain: ManifestChain,
        store: SegmentStore, compactor: Compactor,
        settings: TelemetrySettings,
    ) -> None:  # fmt: skip
        self._link = link
        self._log = event_log
        self._chain = chain
        self._store = store
        self._compactor = compactor
        self._settings = settings
        self._endings = EndedRuns(link, event_log)
        self._gatherer = CommitGatherer(0, chain.archive.seen.copy())
        self._room = asyncio.Event()
        self._since = 0.0
        # Messages on the stream after the last one read.
        self._waiting = 0
        self._writer = f"{link.name}-{link.token}"
        self.trouble = "waiting for the archive"

    async def run(self) -> None:
        """Runs until cancelled: leads, or waits on standby."""
        while True:
            try:
                await self._start()
                await self._lead()
            except CommitLostError as lost:
                metrics.LOST.inc()
                log.warning("ingest.stands_back", reason=str(lost))
                self.trouble = ""
                await self._wait_on_standby()
            except (
                BlobsUnavailableError,
                ManifestChainError,
                SegmentGoneError,
                SegmentNotStoredError,
                NatsUnreachableError,
                StreamWentBackwardsError,
            ) as error:
                self.trouble = str(error)
                log.warning("ingest.again", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                metrics.LEADING.set(0)

    async def _start(self) -> None:
        """Start gathering at the committed cursor."""
        await self._endings.start()
        await self._chain.refresh()
        archive = self._chain.archive
        end = (await self._log.extent(TELEMETRY)).last
        if end < archive.cursor:
            raise StreamWentBackwardsError(
                f"{TELEMETRY} ends at {end}, but {archive.cursor} was archived: it was created again or lost "
                "its end; new batches would be taken for archived ones"
            )
        self._gatherer = CommitGatherer(archive.cursor, archive.seen.copy())
        self._since = time.monotonic()
        self._room.set()
        self.trouble = ""
        metrics.LEADING.set(1)
        log.info("ingest.leads", partition=archive.partition, manifest=archive.number, cursor=archive.cursor)

    async def _lead(self) -> None:
        await run_together(self._read(), self._commit_when_due(), self._endings.follow())

    async def _wait_on_standby(self) -> None:
        """Wait until no process has committed for the takeover time."""
        seen, since = self._chain.archive.number, time.monotonic()
        while time.monotonic() - since < self._settings.ingest_takeover_seconds:
            await asyncio.sleep(min(RETRY_SECONDS, self._settings.ingest_takeover_seconds / 4))
            try:
                await self._chain.refresh()
            except BlobsUnavailableError:
                # The leading process cannot commit now either.
                since = time.monotonic()
            if self._chain.archive.number != seen:
                seen, since = self._chain.archive.number, time.monotonic()

    async def _read(self) -> None:
        limit = MAX_COMMITS_AHEAD * (self._settings.ingest_commit_mib << 20)
        tail = Tail(self._link, TELEMETRY, after=self._gatherer.now.cursor)
        async with aclosing(tail.deliveries()) as deliveries:
            async for delivery in deliveries:
                self._take(delivery)
                self._waiting = delivery.pending
                self._update_lag()
                while self._gatherer.now.bytes >= limit:
                    self._room.clear()
                    await self._room.wait()

    def _take(self, delivery: Delivery) -> None:
        position, data = delivery.sequence, delivery.data
        run_id = delivery.subject.split(".")[1]
        if partition_of(run_id, self._chain.partitions) != self._chain.partition:
            self._gatherer.skip(position)
            return
        batch = parse(data, position)
        if batch is None or batch.run_id != run_id:
            metrics.MALFORMED.inc()
            self._gatherer.skip(position)
        elif self._gatherer.add(Arrival(position, batch), len(data), delivery.stored_at):
            metrics.BATCHES.labels(batch_kind(batch)).inc()
            metrics.BYTES.inc(len(data))
        else:
            metrics.DUPLICATES.inc()

    def _update_lag(self) -> None:
        now = self._gatherer.now
        metrics.LAG.set(self._waiting + now.messages)
        metrics.BUFFERED.set(now.bytes)

    async def _commit_when_due(self) -> None:
        while True:
            if self._due():
                await self._commit()
            ended = self._endings.pop_reached(self._chain.archive.cursor)
            await self._compactor.run(self._chain, ended, self._writer)
            await asyncio.sleep(POLL_SECONDS)

    def _due(self) -> bool:
        now = self._gatherer.now
        if not now.messages:
            self._since = time.monotonic()
            return False
        return (
            now.bytes >= self._settings.ingest_commit_mib << 20
            or time.monotonic() - self._since >= self._settings.ingest_commit_seconds
            or self._endings.any_reached({run_id for run_id, _ in now.batches}, now.cursor)
        )

    async def _commit(self) -> None:
        with metrics.COMMIT_SECONDS.time():
            taken, covered = self._gatherer.cut()
            self._since = time.monotonic()
            self._room.set()
            made = await self._write(taken)
            manifest = self._chain.archive.next(
                cursor=taken.cursor,
                at=now_micros(),
                writer=self._writer,
                added=[each.segment for each in made],
                covered=covered,
            )
            await self._chain.commit(manifest)
        metrics.COMMITS.inc()
        # Without new messages, nothing else updates the lag after a commit.
        self._update_lag()
        for each in made:
            metrics.ROWS.labels(each.segment.kind).inc(each.segment.rows)
        if taken.oldest:
            now = now_micros()
            metrics.BATCH_AGE.observe((now - taken.oldest) / 1e6)
            metrics.BATCH_AGE.observe((now - taken.newest) / 1e6)
        log.debug("ingest.committed", manifest=manifest.number, cursor=manifest.cursor, segments=len(made))

    async def _write(self, taken: PendingCommit) -> list[NewSegment]:
        """Make and store the segments one group at a time; their bytes are released once stored."""
        made: list[NewSegment] = []
        for (run_id, kind), arrivals in taken.batches.items():
            before = self._chain.archive.before(run_id, kind)
            for each in await asyncio.to_thread(_make_segments, run_id, kind, arrivals, before):
                await self._store.put(each)
                made.append(NewSegment(each.segment, {}))
        return made


def _make_segments(
    run_id: str, kind: str, arrivals: Sequence[Arrival], before: Mapping[int, int]
) -> list[NewSegment]:
    """The segments; batches that cannot be encoded are left out."""
    try:
        return list(segments.make_segments(run_id, kind, arrivals, before))
    except segments.MALFORMED_ERRORS as error:
        kept = segments.well_formed(kind, arrivals)
        if len(kept) == len(arrivals):
            raise
        log.error("telemetry.malformed", run_id=run_id, batches=len(arrivals) - len(kept), error=str(error))
    metrics.MALFORMED.inc(len(arrivals) - len(kept))
    return list(segments.make_segments(run_id, kind, kept, before))


def parse(data: bytes, position: int) -> Batch | None:
    """The batch, or None if the data is not one."""
    try:
        return Batch.FromString(data) if data else None
    except DecodeError:
        log.error("telemetry.unreadable", position=position)
        return None
