"""Reads what workers say they have stored, and says on the log what came of it."""

from __future__ import annotations

import asyncio
import time

import structlog

from runspine.artifact.commands import Condemn, Index
from runspine.log import Conflict, Corrupt, Unknown
from runspine.log.link import Unreachable
from runspine.projection import Projector
from runspine.wire.v1.facts_pb2 import ArtifactIndexed
from services.artifacts.core.catalog import Catalog
from services.artifacts.edges import metrics
from services.artifacts.edges.checker import FLAWED, WHOLE, Checker, Verdict
from services.artifacts.edges.clerk import Clerk, wall_clock

log = structlog.get_logger()

TICK = 1.0
# What is taken up before looking again whether something more urgent has come.
BATCH = 64
# A message on the log has room for 1 MiB.
MOST_BYTES = 256 << 10
AGAIN = (Conflict, Corrupt, Unknown, Unreachable)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0


class Indexer:
    """All from the catalog's state, so a restart, a second process or a lost wake-up changes nothing."""

    def __init__(
        self, catalog: Catalog, projector: Projector, clerk: Clerk, checker: Checker, parallel: int
    ) -> None:
        self._catalog = catalog
        self._projector = projector
        self._clerk = clerk
        self._checker = checker
        self._turns = asyncio.Semaphore(parallel)
        # What could not be settled, by run and digest: when to look again, and the pause after that.
        self._later: dict[tuple[str, str], tuple[float, float]] = {}

    async def run(self) -> None:
        async for _ in self._projector.moves(TICK):
            if self._checker.trouble:
                await self._checker.look_again()
            while batch := self._next():
                verdicts = await asyncio.gather(*(self._read(waiting) for _, waiting in batch))
                whole: dict[str, list[ArtifactIndexed]] = {}
                for (run_id, waiting), verdict in zip(batch, verdicts, strict=True):
                    if verdict.outcome == WHOLE:
                        whole.setdefault(run_id, []).append(waiting)
                    else:
                        await self._not_whole(run_id, waiting, verdict)
                for run_id, read in whole.items():
                    await self._index(run_id, read)

    async def _read(self, waiting: ArtifactIndexed) -> Verdict:
        async with self._turns:
            return await self._checker.check(waiting.artifact, "index")

    def _next(self) -> list[tuple[str, ArtifactIndexed]]:
        """What to read now, each digest once."""
        due = self._catalog.due()
        metrics.WAITING.set(len(due))
        oldest = min((waiting.produced_at for _, waiting in due), default=0)
        metrics.LAG.set(max(0.0, (wall_clock() - oldest) / 1e6) if oldest else 0)
        now = time.monotonic()
        chosen: dict[str, tuple[str, ArtifactIndexed]] = {}
        for run_id, waiting in due:
            digest = waiting.artifact.digest
            if now >= self._later.get((run_id, digest), (0.0, 0.0))[0]:
                chosen.setdefault(digest, (run_id, waiting))
            if len(chosen) == BATCH:
                break
        return list(chosen.values())

    async def _index(self, run_id: str, read: list[ArtifactIndexed]) -> None:
        """One commit for what was read of a run, unless it is too much for one message."""
        while read:
            part = [read.pop()]
            while read and sum(each.ByteSize() for each in part) + read[-1].ByteSize() < MOST_BYTES:
                part.append(read.pop())
            try:
                await self._clerk.command(run_id, Index(wall_clock(), tuple(reversed(part))))
            except AGAIN as error:
                log.warning("artifact.later", run_id=run_id, error=str(error))
                for each in part:
                    self._put_off((run_id, each.artifact.digest))
                continue
            log.info("artifacts.indexed", run_id=run_id, count=len(part))
            for each in part:
                self._later.pop((run_id, each.artifact.digest), None)

    async def _not_whole(self, run_id: str, waiting: ArtifactIndexed, verdict: Verdict) -> None:
        said = waiting.artifact
        if verdict.outcome == FLAWED:
            try:
                command = Condemn(wall_clock(), said.digest, verdict.flaw, "index", waiting.produced_at)
                await self._clerk.command(run_id, command)
            except AGAIN as error:
                log.warning("artifact.later", run_id=run_id, digest=said.digest, error=str(error))
            else:
                log.error("artifact.corrupt", run_id=run_id, digest=said.digest, flaw=verdict.flaw)
                return
        log.info("artifact.waiting", run_id=run_id, digest=said.digest, why=verdict.flaw)
        self._put_off((run_id, said.digest))

    def _put_off(self, place: tuple[str, str]) -> None:
        pause = self._later.get(place, (0.0, FIRST_PAUSE))[1]
        self._later[place] = (time.monotonic() + pause, min(2 * pause, LONGEST_PAUSE))
