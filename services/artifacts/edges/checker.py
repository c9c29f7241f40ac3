"""Checks an object against its digest by reading it.

An S3 server that has just restarted answers 404 and 500 for objects that it holds: an object counts as
missing only if it stays so while other objects can be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from runspine.services.artifacts.edges import metrics
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.storage.artifact_blobs import ArtifactBlobs, Fingerprint
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.missing import MissingObjects, read_probe
from runspine.wire.v1.facts_pb2 import ArtifactProduced

log = structlog.get_logger()

CANARY_KEY, CANARY = "canary/artifacts", b"this object proves that the server can be read from\n"
MIN_CHECKS = 2

WHOLE, DAMAGED, UNKNOWN = "whole", "flawed", "unknown"


@dataclass(frozen=True, slots=True)
class ObjectVerdict:
    """The outcome of a check, and the problem unless the object is whole."""

    outcome: str
    problem: str = ""


class ObjectChecker:
    """Checks objects in S3 against their digests."""

    def __init__(self, blobs: ArtifactBlobs, store: ObjectStore, gone_seconds: float) -> None:
        self._blobs = blobs
        self._store = store
        self._gone_seconds = gone_seconds
        self._missing = MissingObjects(self._probe, gone_seconds, min_checks=MIN_CHECKS)
        # Why S3 does not answer, for /healthz; empty while it does.
        self.trouble = ""

    async def check(
        self, expected: ArtifactProduced, why: str, pace: Callable[[int], float] | None = None
    ) -> ObjectVerdict:
        """Read the object once, and again when it differs."""
        try:
            return await self._check(expected, why, pace or _no_pause)
        except BlobsUnavailableError as error:
            return await self._unreadable(expected.digest, f"S3 has its name but not its bytes: {error}")

    async def settle(self, expected: ArtifactProduced, why: str) -> ObjectVerdict:
        """Check until the verdict is certain or S3 is unreachable."""
        while True:
            verdict = await self.check(expected, why)
            if verdict.outcome != UNKNOWN or self.trouble:
                return verdict
            await asyncio.sleep(min(2.0, self._gone_seconds / MIN_CHECKS))

    async def probe(self) -> None:
        """Update `trouble`: whether S3 can be read."""
        with suppress(BlobsUnavailableError):
            await self._probe()

    async def _check(
        self, expected: ArtifactProduced, why: str, pace: Callable[[int], float]
    ) -> ObjectVerdict:
        found = await self._read(expected.key, why, pace)
        if found is None and await self._store.restore(expected.digest, expected.key):
            found = await self._read(expected.key, why, pace)
        if found is None:
            return await self._unreadable(expected.digest, "it is gone from S3")
        if found != (expected.size, expected.digest):
            # Read again, in case the bytes were damaged in transit.
            again = await self._read(expected.key, why, pace)
            if again != found:
                return ObjectVerdict(UNKNOWN, "it reads differently each time")
            return ObjectVerdict(DAMAGED, _difference(expected, found))
        self._missing.settled(expected.digest)
        self._clear_trouble()
        return ObjectVerdict(WHOLE)

    async def _read(self, key: str, why: str, pace: Callable[[int], float]) -> Fingerprint | None:
        found = await self._blobs.fingerprint(key, pace)
        metrics.READ.labels(why).inc(found.size if found is not None else 0)
        return found

    async def _unreadable(self, digest: str, problem: str) -> ObjectVerdict:
        try:
            confirmed = await self._missing.confirmed(digest)
        except BlobsUnavailableError:
            return ObjectVerdict(UNKNOWN, self.trouble)
        if not confirmed:
            return ObjectVerdict(UNKNOWN, problem)
        self._missing.settled(digest)
        return ObjectVerdict(DAMAGED, problem)

    async def _probe(self) -> None:
        """Raises BlobsUnavailableError when S3 cannot be read, and sets `trouble`."""
        try:
            await read_probe(self._blobs, CANARY_KEY, CANARY)
        except BlobsUnavailableError as error:
            self.trouble = str(error)
            metrics.TROUBLE.set(1)
            raise
        self._clear_trouble()

    def _clear_trouble(self) -> None:
        self.trouble = ""
        metrics.TROUBLE.set(0)


def _difference(expected: ArtifactProduced, found: Fingerprint) -> str:
    if found.size != expected.size:
        return f"it has {found.size:,} bytes in S3 instead of {expected.size:,}"
    return "its bytes in S3 are not those that were stored (SHA-256 differs)"


def _no_pause(_: int) -> float:
    return 0.0
