"""Verifies every kept object periodically at a limited rate, resuming where the last process stopped."""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.clock import now_micros
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges import metrics
from runspine.services.artifacts.edges.checker import DAMAGED, UNKNOWN
from runspine.services.artifacts.edges.verification import ObjectVerification
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.wire.v1.artifacts_pb2 import KEPT, UNVERIFIED, ScrubStatus

log = structlog.get_logger()

STATUS_KEY = "scrub/artifacts"
SAVE_SECONDS = 10.0
TICK_SECONDS = 1.0


class ByteRate:
    """Limits reads to a number of bytes per second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    def __call__(self, count: int) -> float:
        """Seconds to wait after reading this many bytes."""
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + count / self._rate
        return self._free_at - now


class ObjectScrubber:
    """The periodic verification of every kept object."""

    def __init__(
        self,
        blobs: ArtifactBlobs,
        catalog: ArtifactCatalog,
        verification: ObjectVerification,
        speed: float,
        interval: float,
    ) -> None:
        """`speed` in bytes per second; a pass begins every `interval` seconds."""
        self._blobs = blobs
        self._catalog = catalog
        self._verification = verification
        self._pace = ByteRate(speed)
        self._interval = interval
        self._saved = 0.0
        self.status = ScrubStatus()

    async def run(self) -> None:
        await self._restore()
        while True:
            if not self._is_under_way():
                await self._wait_until_due()
                continue
            for digest in self._left():
                await self._scrub(digest)
            self.status.finished_at = now_micros()
            await self._save()
            log.info("scrub.finished", number=self.status.number, corrupt=self.status.corrupt)

    def _left(self) -> list[str]:
        """Digests after the cursor. Objects stored during a pass were just verified by the indexer."""
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
        verdict = await self._verification.verify(digest, "scrub", self._pace)
        while verdict.outcome == UNKNOWN:
            log.info("scrub.waiting", digest=digest, why=verdict.problem)
            await asyncio.sleep(TICK_SECONDS)
            verdict = await self._verification.verify(digest, "scrub", self._pace)
        self.status.objects += 1
        self.status.corrupt += verdict.outcome == DAMAGED
        self.status.bytes += max((artifact.size for artifact in self._catalog.kept(digest)), default=0)
        self.status.after = digest
        metrics.SCRUBBED.labels(verdict.outcome).inc()
        if time.monotonic() - self._saved > SAVE_SECONDS:
            await self._save()

    def _is_under_way(self) -> bool:
        return bool(self.status.began_at) and self.status.finished_at < self.status.began_at

    async def _wait_until_due(self) -> None:
        """Wait one tick, or begin the next pass when it is due."""
        due = self.status.began_at / 1e6 + self._interval
        if not self._catalog.run_artifacts or time.time() < due:
            await asyncio.sleep(min(TICK_SECONDS, self._interval))
            return
        self.status = ScrubStatus(
            number=self.status.number + 1,
            began_at=now_micros(),
            finished_at=self.status.finished_at,
        )
        await self._save()
        log.info("scrub.began", number=self.status.number)

    async def _restore(self) -> None:
        try:
            stored = await self._blobs.get(STATUS_KEY)
        except BlobsUnavailableError as error:
            log.info("scrub.from_the_start", error=str(error))
            return
        if stored:
            self.status = ScrubStatus.FromString(stored)

    async def _save(self) -> None:
        self._saved = time.monotonic()
        try:
            await self._blobs.put(STATUS_KEY, self.status.SerializeToString())
        except BlobsUnavailableError as error:
            log.info("scrub.not_saved", error=str(error))
