"""Reads one object and says on the log, for every run that keeps it, what changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from runspine.artifact.commands import Condemn, Mend
from runspine.log import Conflict, Corrupt, Unknown
from runspine.log.link import Unreachable
from runspine.wire.v1.artifacts_pb2 import CORRUPT
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from services.artifacts.core.catalog import Catalog
from services.artifacts.edges.checker import FLAWED, UNKNOWN, WHOLE, Checker, Verdict
from services.artifacts.edges.clerk import Clerk, wall_clock

log = structlog.get_logger()

AT_ONCE = 8


class Verifying:
    def __init__(self, catalog: Catalog, clerk: Clerk, checker: Checker) -> None:
        self._catalog = catalog
        self._clerk = clerk
        self._checker = checker

    async def verify(
        self, digest: str, why: str, pace: Callable[[int], float] | None = None, *, settle: bool = False
    ) -> Verdict:
        """With `settle`, until doubts are settled; S3 being away is never settled."""
        owners = self._catalog.kept(digest)
        if not owners:
            return Verdict(WHOLE)  # pruned meanwhile: there is nothing to be said
        first = owners[0]
        said = ArtifactProduced(digest=digest, size=first.size, key=first.key)
        check = self._checker.settle(said, why) if settle else self._checker.check(said, why, pace)
        verdict = await check
        try:
            for artifact in owners:
                if verdict.outcome == FLAWED:
                    command = Condemn(wall_clock(), digest, verdict.flaw, why)
                    handled = await self._clerk.command(artifact.run_id, command)
                    if handled.facts:
                        log.error(
                            "artifact.corrupt", run_id=artifact.run_id, digest=digest, flaw=verdict.flaw
                        )
                elif verdict.outcome == WHOLE and artifact.integrity == CORRUPT:
                    await self._clerk.command(artifact.run_id, Mend(wall_clock(), digest, why))
        except (Conflict, Corrupt, Unknown, Unreachable) as error:
            log.warning("verify.later", digest=digest, error=str(error))
            return Verdict(UNKNOWN, str(error))
        return verdict

    async def verify_all(self, digests: Iterable[str], why: str) -> dict[str, str]:
        """Read many, a few at a time; the flaws that were found, by digest."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(digest: str) -> tuple[str, Verdict]:
            async with turns:
                return digest, await self.verify(digest, why)

        verdicts = await asyncio.gather(*(one(digest) for digest in digests))
        return {digest: verdict.flaw for digest, verdict in verdicts if verdict.outcome == FLAWED}
