"""Usage of the bucket, and orphans: objects without a fact and facts without an object."""

from __future__ import annotations

import asyncio
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

from runspine.clock import now_micros
from runspine.eventlog import UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import card_source
from runspine.services.artifacts.edges import metrics
from runspine.services.artifacts.edges.code_store import CodeStore
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.storage.artifact_blobs import ArtifactBlobs, Listed
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.keys import ARTIFACTS_PREFIX, CODE_PREFIX
from runspine.wire.v1.artifacts_pb2 import (
    ERASED,
    KEPT,
    Disk,
    GetUsageResponse,
    ListOrphansResponse,
    Orphan,
    UsageItem,
)

log = structlog.get_logger()

COUNT_SECONDS = 300.0
CACHE_SECONDS = 5.0


class Inventory:
    """Counts usage, and finds and removes orphans."""

    def __init__(
        self,
        blobs: ArtifactBlobs,
        catalog: ArtifactCatalog,
        handler: CommandHandler,
        store: ObjectStore,
        code: CodeStore,
        *,
        grace: float,
        disk: Path | None,
    ) -> None:
        self._blobs = blobs
        self._catalog = catalog
        self._handler = handler
        self._store = store
        self._code = code
        self._grace = grace
        self._disk = disk
        self._bucket: dict[str, UsageItem] = {}
        self._counted = 0.0
        self._counted_at = 0

    async def run(self) -> None:
        """Count periodically for Prometheus."""
        while True:
            try:
                await self._count()
                await self.orphans()
            except (BlobsUnavailableError, UnknownOutcomeError, NatsUnreachableError) as error:
                log.info("inventory.later", error=str(error))
            await asyncio.sleep(COUNT_SECONDS)

    async def usage(self) -> GetUsageResponse:
        if time.monotonic() - self._counted > CACHE_SECONDS:
            await self._count()
        kinds: dict[str, UsageItem] = {}
        projects: dict[str, UsageItem] = {}
        unique: dict[str, int] = {}
        total = 0
        for artifact in self._catalog.artifacts():
            if artifact.keeping == KEPT:
                project = card_source(self._catalog, artifact.run_id).project
                _add(kinds, artifact.kind, artifact.size)
                _add(projects, project or "(none)", artifact.size)
                unique[artifact.digest] = artifact.size
                total += artifact.size
        return GetUsageResponse(
            bucket=_sorted(self._bucket),
            kinds=_sorted(kinds),
            projects=_sorted(projects),
            shared_bytes=total - sum(unique.values()),
            disk=self._disk_usage(),
            counted_at=self._counted_at,
        )

    async def orphans(self) -> ListOrphansResponse:
        """The objects are listed before the log is read to its end, so that those stored meanwhile are
        known."""
        found = await self._blobs.listed(ARTIFACTS_PREFIX) + await self._blobs.listed(CODE_PREFIX)
        listed_at = now_micros()
        await self._handler.catch_up()
        there = {item.key for item in found}
        # Pruned bytes move to the trash: they are no orphans either.
        named = {artifact.key for artifact in self._catalog.artifacts() if artifact.keeping != ERASED}
        named |= await self._code.referenced(item.key for item in found)
        answer = ListOrphansResponse(
            objects=[_orphan(item) for item in found if item.key not in named and self._is_old(item)],
            missing=[
                artifact
                for artifact in self._catalog.artifacts()
                if artifact.keeping == KEPT and artifact.key not in there and artifact.produced_at < listed_at
            ],
            looked_at=listed_at,
        )
        metrics.ORPHANS.labels("object").set(len(answer.objects))
        metrics.ORPHANS.labels("fact").set(len(answer.missing))
        return answer

    async def remove(self, keys: list[str]) -> tuple[list[Orphan], list[str]]:
        """Move orphans to the trash; keys that are no orphans any more are left."""
        orphans = {orphan.key: orphan for orphan in (await self.orphans()).objects}
        left = [f"{key} is not an orphan, or too young to be one" for key in keys if key not in orphans]
        code = {key.rpartition("/")[2]: key for key in keys if key in orphans and key.startswith(CODE_PREFIX)}
        files = {key.rpartition("/")[2]: key for key in keys if key in orphans and key not in code.values()}
        moved = await self._store.discard(files) | await self._code.discard(code)
        chosen = files | code
        left += [f"{key} has been claimed by a run" for digest, key in chosen.items() if digest not in moved]
        removed = [orphans[key] for digest, key in chosen.items() if digest in moved]
        log.info("orphans.removed", objects=len(removed), bytes=sum(orphan.size for orphan in removed))
        return removed, left

    def _is_old(self, item: Listed) -> bool:
        return (datetime.now(UTC) - item.modified).total_seconds() >= self._grace

    async def _count(self) -> None:
        found: dict[str, UsageItem] = {}
        for item in await self._blobs.listed(""):
            _add(found, item.key.partition("/")[0], item.size)
        for name in {*self._bucket, *found}:
            metrics.BUCKET.labels(name).set(found[name].bytes if name in found else 0)
        self._bucket, self._counted, self._counted_at = found, time.monotonic(), now_micros()

    def _disk_usage(self) -> Disk | None:
        if self._disk is None or not self._disk.exists():
            return None
        use = shutil.disk_usage(self._disk)
        return Disk(total=use.total, free=use.free)


def _add(items: dict[str, UsageItem], name: str, size: int) -> None:
    item = items.setdefault(name, UsageItem(name=name))
    item.objects += 1
    item.bytes += size


def _sorted(items: dict[str, UsageItem]) -> list[UsageItem]:
    return sorted(items.values(), key=lambda item: (-item.bytes, item.name))


def _orphan(item: Listed) -> Orphan:
    return Orphan(key=item.key, size=item.size, modified_at=int(item.modified.timestamp() * 1e6))
