"""Verifies artifacts that workers produced, and records them as indexed or corrupt."""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.clock import now_micros
from runspine.domain.artifact.commands import Index, MarkCorrupt
from runspine.eventlog import ConflictError, CorruptError, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges import metrics
from runspine.services.artifacts.edges.checker import DAMAGED, WHOLE, ObjectChecker, ObjectVerdict
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.wire.v1.facts_pb2 import ArtifactIndexed

log = structlog.get_logger()

TICK_SECONDS = 1.0
# Artifacts that are read before the catalog is checked for more urgent ones.
MAX_BATCH = 64
# A message on the log holds at most 1 MiB.
MAX_COMMIT_BYTES = 256 << 10
RETRYABLE = (ConflictError, CorruptError, UnknownOutcomeError, NatsUnreachableError)
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 15.0


class Indexer:
    """Works from the catalog's state, so a restart, a second process or a lost wake-up changes nothing."""

    def __init__(
        self,
        catalog: ArtifactCatalog,
        projector: Projector,
        handler: CommandHandler,
        checker: ObjectChecker,
        parallel: int,
    ) -> None:
        self._catalog = catalog
        self._projector = projector
        self._handler = handler
        self._checker = checker
        self._turns = asyncio.Semaphore(parallel)
        # Artifacts without a certain verdict, by run and digest: when to check again, and the next pause.
        self._postponed: dict[tuple[str, str], tuple[float, float]] = {}

    async def run(self) -> None:
        async for _ in self._projector.moves(TICK_SECONDS):
            if self._checker.trouble:
                await self._checker.probe()
            while batch := self._next():
                verdicts = await asyncio.gather(*(self._read(waiting) for _, waiting in batch))
                whole: dict[str, list[ArtifactIndexed]] = {}
                for (run_id, waiting), verdict in zip(batch, verdicts, strict=True):
                    if verdict.outcome == WHOLE:
                        whole.setdefault(run_id, []).append(waiting)
                    else:
                        await self._record_problem(run_id, waiting, verdict)
                for run_id, read in whole.items():
                    await self._index(run_id, read)

    async def _read(self, waiting: ArtifactIndexed) -> ObjectVerdict:
        async with self._turns:
            return await self._checker.check(waiting.artifact, "index")

    def _next(self) -> list[tuple[str, ArtifactIndexed]]:
        """The artifacts to read now, each digest once."""
        due = self._catalog.due()
        metrics.WAITING.set(len(due))
        oldest = min((waiting.produced_at for _, waiting in due), default=0)
        metrics.LAG.set(max(0.0, (now_micros() - oldest) / 1e6) if oldest else 0)
        now = time.monotonic()
        chosen: dict[str, tuple[str, ArtifactIndexed]] = {}
        for run_id, waiting in due:
            digest = waiting.artifact.digest
            if now >= self._postponed.get((run_id, digest), (0.0, 0.0))[0]:
                chosen.setdefault(digest, (run_id, waiting))
            if len(chosen) == MAX_BATCH:
                break
        return list(chosen.values())

    async def _index(self, run_id: str, read: list[ArtifactIndexed]) -> None:
        """One commit for the artifacts of a run, or several when they exceed one message."""
        while read:
            part = [read.pop()]
            while read and sum(each.ByteSize() for each in part) + read[-1].ByteSize() < MAX_COMMIT_BYTES:
                part.append(read.pop())
            try:
                await self._handler.command(run_id, Index(now_micros(), tuple(reversed(part))))
            except RETRYABLE as error:
                log.warning("artifact.later", run_id=run_id, error=str(error))
                for each in part:
                    self._postpone((run_id, each.artifact.digest))
                continue
            log.info("artifacts.indexed", run_id=run_id, count=len(part))
            for each in part:
                self._postponed.pop((run_id, each.artifact.digest), None)

    async def _record_problem(self, run_id: str, waiting: ArtifactIndexed, verdict: ObjectVerdict) -> None:
        artifact = waiting.artifact
        if verdict.outcome == DAMAGED:
            try:
                command = MarkCorrupt(
                    now_micros(), artifact.digest, verdict.problem, "index", waiting.produced_at
                )
                await self._handler.command(run_id, command)
            except RETRYABLE as error:
                log.warning("artifact.later", run_id=run_id, digest=artifact.digest, error=str(error))
            else:
                log.error("artifact.corrupt", run_id=run_id, digest=artifact.digest, flaw=verdict.problem)
                return
        log.info("artifact.waiting", run_id=run_id, digest=artifact.digest, why=verdict.problem)
        self._postpone((run_id, artifact.digest))

    def _postpone(self, place: tuple[str, str]) -> None:
        pause = self._postponed.get(place, (0.0, MIN_PAUSE_SECONDS))[1]
        self._postponed[place] = (time.monotonic() + pause, min(2 * pause, MAX_PAUSE_SECONDS))
