"""Whether an object is what its digest says, by reading it. An S3 server that has just come back
answers 404 and 500 for objects that it has: only what stays so, while others can be read, is proof."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from runspine.artifact_blobs import ArtifactBlobs, Fingerprint
from runspine.blobs import BlobsUnavailable
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from services.artifacts.edges import metrics
from services.artifacts.edges.storekeeper import Storekeeper

log = structlog.get_logger()

CANARY_KEY, CANARY = "canary/artifacts", b"this object proves that the server can be read from\n"
LOOKS = 2

WHOLE, FLAWED, UNKNOWN = "whole", "flawed", "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: str
    flaw: str = ""


@dataclass(slots=True)
class _Doubt:
    since: float
    looks: int = 0


class Checker:
    def __init__(self, blobs: ArtifactBlobs, storekeeper: Storekeeper, patience: float) -> None:
        self._blobs = blobs
        self._storekeeper = storekeeper
        self._patience = patience
        self._doubts: dict[str, _Doubt] = {}
        # What keeps S3 from answering, for people; empty while all is well.
        self.trouble = ""

    async def check(
        self, said: ArtifactProduced, why: str, pace: Callable[[int], float] | None = None
    ) -> Verdict:
        """Read it once, twice when it looks wrong."""
        try:
            return await self._look(said, why, pace or _at_once)
        except BlobsUnavailable as error:
            if not await self._server_is_well():
                # Nothing that was seen lately proves anything.
                self._doubts.clear()
                return Verdict(UNKNOWN, self.trouble)
            return self._doubt(said.digest, f"S3 has its name but not its bytes: {error}")

    async def settle(self, said: ArtifactProduced, why: str) -> Verdict:
        """The same, until doubts are settled or S3 turns out to be away."""
        while True:
            verdict = await self.check(said, why)
            if verdict.outcome != UNKNOWN or self.trouble:
                return verdict
            await asyncio.sleep(min(2.0, self._patience / LOOKS))

    async def look_again(self) -> None:
        """Whether S3 is still away."""
        await self._server_is_well()

    async def _look(self, said: ArtifactProduced, why: str, pace: Callable[[int], float]) -> Verdict:
        found = await self._read(said.key, why, pace)
        if found is None and await self._storekeeper.bring_back(said.digest, said.key):
            found = await self._read(said.key, why, pace)
        if found is None:
            if not await self._server_is_well():
                self._doubts.clear()
                return Verdict(UNKNOWN, self.trouble)
            return self._doubt(said.digest, "it is gone from S3")
        if found != (said.size, said.digest):
            # Once more, in case it was spoilt on the way here.
            again = await self._read(said.key, why, pace)
            if again != found:
                return Verdict(UNKNOWN, "it reads differently each time")
            return Verdict(FLAWED, _difference(said, found))
        self._doubts.pop(said.digest, None)
        self._well()
        return Verdict(WHOLE)

    async def _read(self, key: str, why: str, pace: Callable[[int], float]) -> Fingerprint | None:
        found = await self._blobs.fingerprint(key, pace)
        metrics.READ.labels(why).inc(found.size if found is not None else 0)
        return found

    def _doubt(self, digest: str, flaw: str) -> Verdict:
        now = time.monotonic()
        doubt = self._doubts.setdefault(digest, _Doubt(now))
        doubt.looks += 1
        if doubt.looks >= LOOKS and now - doubt.since >= self._patience:
            del self._doubts[digest]
            return Verdict(FLAWED, flaw)
        return Verdict(UNKNOWN, flaw)

    async def _server_is_well(self) -> bool:
        """Whether an object that is known to be there can be read; it is put there when missing."""
        try:
            if await self._blobs.get(CANARY_KEY) != CANARY:
                await self._blobs.put(CANARY_KEY, CANARY)
                self.trouble = "S3 has lost the object that shows whether it can be read"
                metrics.TROUBLE.set(1)
                return False
        except BlobsUnavailable as error:
            self.trouble = str(error)
            metrics.TROUBLE.set(1)
            return False
        self._well()
        return True

    def _well(self) -> None:
        self.trouble = ""
        metrics.TROUBLE.set(0)


def _difference(said: ArtifactProduced, found: Fingerprint) -> str:
    if found.size != said.size:
        return f"it has {found.size:,} bytes in S3 instead of {said.size:,}"
    return "its bytes in S3 are not those that were stored (SHA-256 differs)"


def _at_once(_: int) -> float:
    return 0.0
