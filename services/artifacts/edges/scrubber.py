"""Reads everything that is kept again and again, slowly, and goes on where the last process stopped."""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.artifact_blobs import ArtifactBlobs
from runspine.blobs import BlobsUnavailable
from runspine.wire.v1.artifacts_pb2 import KEPT, UNVERIFIED, ScrubStatus
from services.artifacts.core.catalog import Catalog
from services.artifacts.edges import metrics
from services.artifacts.edges.checker import FLAWED, UNKNOWN
from services.artifacts.edges.verifying import Verifying

log = structlog.get_logger()

STATUS_KEY = "scrub/artifacts"
SAVE_SECONDS = 10.0
TICK = 1.0


class Pace:
    """Lets so many bytes through a second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    def __call__(self, count: int) -> float:
        """How long to wait after having read this much."""
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + count / self._rate
        return self._free_at - now


class Scrubber:
    def __init__(
        self, blobs: ArtifactBlobs, catalog: Catalog, verifying: Verifying, speed: float, interval: float
    ) -> None:
        """At so many bytes a second, beginning anew after so many seconds."""
        self._blobs = blobs
        self._catalog = catalog
        self._verifying = verifying
        self._pace = Pace(speed)
        self._interval = interval
        self._saved = 0.0
        self.status = ScrubStatus()

    async def run(self) -> None:
        await self._restore()
        while True:
            if not self._is_under_way():
                await self._until_due()
                continue
            for digest in self._left():
                await self._scrub(digest)
            self.status.finished_at = time.time_ns() // 1000
            await self._save()
            log.info("scrub.finished", number=self.status.number, corrupt=self.status.corrupt)

    def _left(self) -> list[str]:
        """Digests after the cursor. What comes during a pass has just been read to be indexed."""
        return sorted(
            {
                artifact.digest
                for artifact in self._catalog.artifacts()
                if artifact.keeping == KEPT
                and artifact.integrity != UNVERIFIED
                and artifact.digest > self.status.after
            }
        )

    async def _scrub(self, digest: str) -> None:
        verdict = await self._verifying.verify(digest, "scrub", self._pace)
        while verdict.outcome == UNKNOWN:
            log.info("scrub.waiting", digest=digest, why=verdict.flaw)
            await asyncio.sleep(TICK)
            verdict = await self._verifying.verify(digest, "scrub", self._pace)
        self.status.objects += 1
        self.status.corrupt += verdict.outcome == FLAWED
        self.status.bytes += max((artifact.size for artifact in self._catalog.kept(digest)), default=0)
        self.status.after = digest
        metrics.SCRUBBED.labels(verdict.outcome).inc()
        if time.monotonic() - self._saved > SAVE_SECONDS:
            await self._save()

    def _is_under_way(self) -> bool:
        return bool(self.status.began_at) and self.status.finished_at < self.status.began_at

    async def _until_due(self) -> None:
        """Wait a little, and begin the next pass when its time has come."""
        due = self.status.began_at / 1e6 + self._interval
        if not self._catalog.shelves or time.time() < due:
            await asyncio.sleep(min(TICK, self._interval))
            return
        self.status = ScrubStatus(
            number=self.status.number + 1,
            began_at=time.time_ns() // 1000,
            finished_at=self.status.finished_at,
        )
        await self._save()
        log.info("scrub.began", number=self.status.number)

    async def _restore(self) -> None:
        try:
            stored = await self._blobs.get(STATUS_KEY)
        except BlobsUnavailable as error:
            log.info("scrub.from_the_start", error=str(error))
            return
        if stored:
            self.status = ScrubStatus.FromString(stored)

    async def _save(self) -> None:
        self._saved = time.monotonic()
        try:
            await self._blobs.put(STATUS_KEY, self.status.SerializeToString())
        except BlobsUnavailable as error:
            log.info("scrub.not_saved", error=str(error))
