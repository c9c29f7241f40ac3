"""What the bucket holds beside what the log says: usage, and orphans on either side."""

from __future__ import annotations

import asyncio
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

from runspine.artifact_blobs import ArtifactBlobs, Listed
from runspine.blobs import BlobsUnavailable
from runspine.log import Unknown
from runspine.log.link import Unreachable
from runspine.wire.v1.artifacts_pb2 import (
    ERASED,
    KEPT,
    Disk,
    GetUsageResponse,
    ListOrphansResponse,
    Orphan,
    UsageItem,
)
from services.artifacts.core.catalog import Catalog
from services.artifacts.core.standing import about
from services.artifacts.edges import metrics
from services.artifacts.edges.clerk import Clerk, wall_clock
from services.artifacts.edges.storekeeper import PLACE, Storekeeper

log = structlog.get_logger()

COUNT_SECONDS = 300.0
FRESH_SECONDS = 5.0


class Inventory:
    def __init__(
        self,
        blobs: ArtifactBlobs,
        catalog: Catalog,
        clerk: Clerk,
        storekeeper: Storekeeper,
        *,
        grace: float,
        disk: Path | None,
    ) -> None:
        self._blobs = blobs
        self._catalog = catalog
        self._clerk = clerk
        self._storekeeper = storekeeper
        self._grace = grace
        self._disk = disk
        self._bucket: dict[str, UsageItem] = {}
        self._counted = 0.0
        self._counted_at = 0

    async def run(self) -> None:
        """Count for Prometheus, now and then."""
        while True:
            try:
                await self._count()
                await self.orphans()
            except (BlobsUnavailable, Unknown, Unreachable) as error:
                log.info("inventory.later", error=str(error))
            await asyncio.sleep(COUNT_SECONDS)

    async def usage(self) -> GetUsageResponse:
        if time.monotonic() - self._counted > FRESH_SECONDS:
            await self._count()
        kinds: dict[str, UsageItem] = {}
        projects: dict[str, UsageItem] = {}
        unique: dict[str, int] = {}
        total = 0
        for artifact in self._catalog.artifacts():
            if artifact.keeping == KEPT:
                project = about(self._catalog, artifact.run_id).project
                _add(kinds, artifact.kind, artifact.size)
                _add(projects, project or "(none)", artifact.size)
                unique[artifact.digest] = artifact.size
                total += artifact.size
        return GetUsageResponse(
            bucket=_sorted(self._bucket),
            kinds=_sorted(kinds),
            projects=_sorted(projects),
            shared_bytes=total - sum(unique.values()),
            disk=self._disk_use(),
            counted_at=self._counted_at,
        )

    async def orphans(self) -> ListOrphansResponse:
        """Listed first, then the log is read to its end: what was stored meanwhile is named there."""
        found = await self._blobs.listed(PLACE)
        looked_at = wall_clock()
        await self._clerk.caught_up()
        there = {item.key for item in found}
        # Pruned bytes are on their way to the trash: no orphans either.
        named = {artifact.key for artifact in self._catalog.artifacts() if artifact.keeping != ERASED}
        answer = ListOrphansResponse(
            objects=[_orphan(item) for item in found if item.key not in named and self._is_old(item)],
            missing=[
                artifact
                for artifact in self._catalog.artifacts()
                if artifact.keeping == KEPT and artifact.key not in there and artifact.produced_at < looked_at
            ],
            looked_at=looked_at,
        )
        metrics.ORPHANS.labels("object").set(len(answer.objects))
        metrics.ORPHANS.labels("fact").set(len(answer.missing))
        return answer

    async def remove(self, keys: list[str]) -> tuple[list[Orphan], list[str]]:
        """Move orphans to the trash; only what is one still."""
        orphans = {orphan.key: orphan for orphan in (await self.orphans()).objects}
        left = [f"{key} is not an orphan, or too young to tell" for key in keys if key not in orphans]
        chosen = {key.rpartition("/")[2]: key for key in keys if key in orphans}
        moved = await self._storekeeper.discard(chosen)
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
        self._bucket, self._counted, self._counted_at = found, time.monotonic(), wall_clock()

    def _disk_use(self) -> Disk | None:
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
