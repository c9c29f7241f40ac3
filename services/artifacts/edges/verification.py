"""Verifies an object and records the result for every run that keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from runspine.clock import now_micros
from runspine.domain.artifact.commands import MarkCorrupt, MarkGood
from runspine.eventlog import ConflictError, CorruptError, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.checker import DAMAGED, UNKNOWN, WHOLE, ObjectChecker, ObjectVerdict
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.wire.v1.artifacts_pb2 import CORRUPT
from runspine.wire.v1.facts_pb2 import ArtifactProduced

log = structlog.get_logger()

MAX_CONCURRENT = 8


class ObjectVerification:
    """Verifies objects and records those that became corrupt or good again."""

    def __init__(self, catalog: ArtifactCatalog, handler: CommandHandler, checker: ObjectChecker) -> None:
        self._catalog = catalog
        self._handler = handler
        self._checker = checker

    async def verify(
        self, digest: str, why: str, pace: Callable[[int], float] | None = None, *, settle: bool = False
    ) -> ObjectVerdict:
        """Verify one object. With `settle`, until the verdict is certain or S3 is unreachable."""
        owners = self._catalog.kept(digest)
        if not owners:
            return ObjectVerdict(WHOLE)  # pruned meanwhile: nothing to record
        first = owners[0]
        expected = ArtifactProduced(digest=digest, size=first.size, key=first.key)
        check = self._checker.settle(expected, why) if settle else self._checker.check(expected, why, pace)
        verdict = await check
        try:
            for artifact in owners:
                if verdict.outcome == DAMAGED:
                    command = MarkCorrupt(now_micros(), digest, verdict.problem, why)
                    handled = await self._handler.command(artifact.run_id, command)
                    if handled.facts:
                        log.error(
                            "artifact.corrupt", run_id=artifact.run_id, digest=digest, flaw=verdict.problem
                        )
                elif verdict.outcome == WHOLE and artifact.integrity == CORRUPT:
                    await self._handler.command(artifact.run_id, MarkGood(now_micros(), digest, why))
        except (ConflictError, CorruptError, UnknownOutcomeError, NatsUnreachableError) as error:
            log.warning("verify.later", digest=digest, error=str(error))
            return ObjectVerdict(UNKNOWN, str(error))
        return verdict

    async def verify_all(self, digests: Iterable[str], why: str) -> dict[str, str]:
        """Verify many objects, a few at a time; the problems found, by digest."""
        turns = asyncio.Semaphore(MAX_CONCURRENT)

        async def one(digest: str) -> tuple[str, ObjectVerdict]:
            async with turns:
                return digest, await self.verify(digest, why)

        verdicts = await asyncio.gather(*(one(digest) for digest in digests))
        return {digest: verdict.problem for digest, verdict in verdicts if verdict.outcome == DAMAGED}
