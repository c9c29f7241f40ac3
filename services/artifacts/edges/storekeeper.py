"""Where bytes lie: in their place while a run keeps them, in the trash while a prune can be undone.

Every step can be repeated, and the log decides: bytes that a run keeps are brought back from the
trash whenever they are missed. A worker that finds its bytes stored already does not store them
again, so they must never be removed from their place directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import structlog

from runspine.artifact.commands import Erase
from runspine.artifact_blobs import ArtifactBlobs
from runspine.retention import UNSAID
from runspine.run import Refused
from runspine.wire.v1.artifacts_pb2 import PRUNED, Artifact
from services.artifacts.core.catalog import Catalog
from services.artifacts.edges import metrics
from services.artifacts.edges.clerk import Clerk, wall_clock

log = structlog.get_logger()

PLACE, TRASH = "artifacts/sha256/", "trash/sha256/"
# Objects that are moved at the same time.
AT_ONCE = 8


def place_of(digest: str) -> str:
    return f"{PLACE}{digest[:2]}/{digest}"


def trash_of(digest: str) -> str:
    return f"{TRASH}{digest[:2]}/{digest}"


class Storekeeper:
    def __init__(self, blobs: ArtifactBlobs, catalog: Catalog, clerk: Clerk) -> None:
        self._blobs = blobs
        self._catalog = catalog
        self._clerk = clerk
        # In the trash for certain, so that it is not looked for every time.
        self._moved: set[str] = set()

    async def bring_back(self, digest: str, key: str) -> bool:
        """Whether the bytes are in their place, from the trash if need be. Raises BlobsUnavailable."""
        if await self._blobs.stat(key) is not None:
            return True
        self._moved.discard(digest)
        if not await self._blobs.copy(trash_of(digest), key):
            return False
        log.info("artifact.brought_back", digest=digest)
        return True

    async def bring_all_back(self, keys: Mapping[str, str]) -> set[str]:
        """The same for many, by digest; the digests that are in their place now."""
        back: set[str] = set()

        async def one(digest: str, key: str) -> None:
            if await self.bring_back(digest, key):
                back.add(digest)

        await self._each(keys, one)
        return back

    async def discard(self, keys: Mapping[str, str]) -> set[str]:
        """Move bytes that nobody keeps, by digest, to the trash; the digests that are there now."""
        await self._clerk.caught_up()
        idle = {digest: key for digest, key in keys.items() if not self._is_wanted(digest)}
        await self._each(idle, self._move)
        # Somebody may have said meanwhile that these bytes are theirs.
        await self._clerk.caught_up()
        claimed = {digest: key for digest, key in idle.items() if self._is_wanted(digest)}
        await self._each(claimed, self.bring_back)
        moved = idle.keys() - claimed.keys()
        self._moved |= moved
        return moved

    async def _move(self, digest: str, key: str) -> None:
        if await self._blobs.copy(key, trash_of(digest)):
            await self._blobs.delete(key)

    async def _each(self, keys: Mapping[str, str], do: Callable[[str, str], Awaitable[object]]) -> None:
        """A few at a time."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(digest: str, key: str) -> None:
            async with turns:
                await do(digest, key)

        await asyncio.gather(*(one(digest, key) for digest, key in keys.items()))

    async def tidy(self) -> None:
        """Move what was pruned, erase what can no longer be undone, and look through the trash."""
        pruned: dict[str, list[Artifact]] = {}
        for artifact in self._catalog.artifacts():
            if artifact.keeping == PRUNED:
                pruned.setdefault(artifact.digest, []).append(artifact)
        due, over = {}, []
        for digest, artifacts in pruned.items():
            if self._is_wanted(digest):
                continue
            # Erased is only what was in the trash for a while, and not missed.
            if digest not in self._moved:
                due[digest] = artifacts[0].key
            elif max(artifact.undo_until for artifact in artifacts) <= wall_clock():
                over.append((digest, artifacts))
        if due:
            moved = await self.discard(due)
            log.info("artifacts.moved_to_trash", objects=len(moved))
        if over:
            await self._clerk.caught_up()
            for digest, artifacts in over:
                await self._erase(digest, artifacts)
        await self._sweep()

    async def _erase(self, digest: str, artifacts: list[Artifact]) -> None:
        """The fact comes first: it and an undo cannot both happen, whoever asks for them."""
        if self._is_wanted(digest):
            return
        for artifact in artifacts:
            try:
                await self._clerk.command(artifact.run_id, Erase(wall_clock(), digest))
            except Refused:
                return
        if self._is_wanted(digest):
            return
        await self._blobs.delete(trash_of(digest))
        self._moved.discard(digest)
        metrics.ERASED.inc(artifacts[0].size)
        log.info("artifact.erased", digest=digest, size=artifacts[0].size)

    async def _sweep(self) -> None:
        """What a process that died left in the trash, and what was no run's to begin with."""
        for key, _, modified in await self._blobs.listed(TRASH):
            digest = key.rpartition("/")[2]
            if self._is_wanted(digest):
                if await self.bring_back(digest, self._key(digest)):
                    await self._blobs.delete(key)
                continue
            states = {a.keeping for a in self._all(digest)}
            age = (datetime.now(UTC) - modified).total_seconds()
            if PRUNED not in states and (states or age > UNSAID.undo_seconds):
                await self._blobs.delete(key)

    def _is_wanted(self, digest: str) -> bool:
        return bool(self._catalog.kept(digest)) or self._catalog.awaited(digest)

    def _all(self, digest: str) -> list[Artifact]:
        found = [self._catalog.get(run_id, digest) for run_id in self._catalog.owners.get(digest, ())]
        return [artifact for artifact in found if artifact is not None]

    def _key(self, digest: str) -> str:
        return next((artifact.key for artifact in self._all(digest) if artifact.key), place_of(digest))
