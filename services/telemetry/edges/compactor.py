"""Joins a run's small segments into larger ones, and removes objects that no manifest names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from runspine.clock import now_micros
from runspine.eventlog import EventLog
from runspine.services.telemetry.core import compaction, segments
from runspine.services.telemetry.core.manifest import PREFIX, partition_of
from runspine.services.telemetry.edges import metrics
from runspine.services.telemetry.edges.ended_runs import has_ended
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Segment

log = structlog.get_logger()

SWEEP_SECONDS = 3600.0


class Compactor:
    """Runs between commits, one group at a time, so that it never delays a commit for long."""

    def __init__(self, blobs: RangedBlobs, event_log: EventLog, store: SegmentStore, grace: float) -> None:
        self._blobs = blobs
        self._log = event_log
        self._store = store
        self._grace = grace
        self._checked: dict[tuple[str, str], int] = {}
        self._ended: set[str] = set()
        self._looked_up: set[str] = set()
        self._replaced: list[tuple[float, Segment]] = []
        self._swept = 0.0
        self._last_manifest = -1

    async def run(self, chain: ManifestChain, ended: Sequence[str], writer: str) -> None:
        """One step of compaction. Raises CommitLostError, BlobsUnavailableError, SegmentNotStoredError."""
        self._ended.update(ended)
        for run_id in ended:
            self._check_again(chain, run_id)
        if ended or self._last_manifest != chain.archive.number:
            manifest = chain.archive.number
            group = await self._next_group(chain)
            if group:
                await self._join(chain, group, writer)
            self._last_manifest = manifest
        await self._remove_replaced()
        if time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            await self._sweep(chain)

    def _check_again(self, chain: ManifestChain, run_id: str) -> None:
        for key in chain.archive.segments:
            if key[0] == run_id:
                self._checked.pop(key, None)

    async def _next_group(self, chain: ManifestChain) -> list[Segment] | None:
        for (run_id, kind), found in chain.archive.segments.items():
            # Checked again only after a segment was added.
            if len(found) < 2 or self._checked.get((run_id, kind)) == len(found):
                continue
            for group in compaction.groups(found, await self._has_ended(run_id)):
                return group
            self._checked[run_id, kind] = len(found)
        return None

    async def _has_ended(self, run_id: str) -> bool:
        """Read from the log once per run; runs that end later are passed to `run`."""
        if run_id not in self._looked_up:
            self._looked_up.add(run_id)
            if await has_ended(self._log, run_id):
                self._ended.add(run_id)
        return run_id in self._ended

    async def _join(self, chain: ManifestChain, group: list[Segment], writer: str) -> None:
        tables = [await self._store.whole(segment) for segment in group]
        made = await asyncio.to_thread(segments.join_segments, group, tables)
        del tables
        await self._store.put(made)
        manifest = chain.archive.next(
            cursor=chain.archive.cursor,
            at=now_micros(),
            writer=writer,
            added=[made.segment],
            removed=[segment.key for segment in group],
        )
        await chain.commit(manifest)
        until = time.monotonic() + self._grace
        self._replaced += [(until, segment) for segment in group]
        metrics.COMPACTED.inc(len(group))
        log.info("segments.joined", run_id=made.segment.run_id, kind=made.segment.kind, count=len(group))

    async def _remove_replaced(self) -> None:
        now = time.monotonic()
        while self._replaced and self._replaced[0][0] <= now:
            _, segment = self._replaced.pop(0)
            for key in (segment.key, segment.levels_key):
                if key:
                    await self._blobs.delete(key)

    async def _sweep(self, chain: ManifestChain) -> None:
        """Remove objects of this partition that no manifest names, left behind by a process that was
        killed."""
        # Listed before the archive is read, so that what is committed meanwhile is named in it.
        try:
            found = await self._blobs.aged(segments.PREFIX)
        except BlobsUnavailableError as error:
            log.info("segments.not_swept", error=str(error))
            return
        named = {
            key for group in chain.archive.segments.values() for s in group for key in (s.key, s.levels_key)
        } | {key for _, s in self._replaced for key in (s.key, s.levels_key)}
        for key, modified in found:
            if key in named or key.startswith(PREFIX):
                continue
            mine = partition_of(key.split("/")[1], chain.partitions) == chain.partition
            if mine and (datetime.now(UTC) - modified).total_seconds() > max(self._grace, SWEEP_SECONDS):
                log.info("segments.orphan_removed", key=key)
                await self._blobs.delete(key)
