"""Objects of artifacts: at their key while a run keeps them, in the trash while a prune can be undone.

Every step can be repeated, and the log decides: bytes that a run keeps are restored from the trash when
they are missing. A worker that finds its bytes stored does not store them again, so they must never be
deleted from their key directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import structlog

from runspine.clock import now_micros
from runspine.domain.artifact.commands import Erase
from runspine.domain.retention import DEFAULT_PROFILE
from runspine.domain.run import RunRefusedError
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges import pruning_metrics as metrics
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.lease import HeldTerm
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.storage.keys import TRASH_PREFIX, artifact_key, trash_key
from runspine.wire.v1.artifacts_pb2 import PRUNED, Artifact

log = structlog.get_logger()

MAX_CONCURRENT = 8


class ObjectStore:
    """Moves objects between their key and the trash."""

    def __init__(self, blobs: ArtifactBlobs, catalog: ArtifactCatalog, handler: CommandHandler) -> None:
        self._blobs = blobs
        self._catalog = catalog
        self._handler = handler
        # Digests known to be in the trash.
        self._moved: set[str] = set()

    async def restore(self, digest: str, key: str) -> bool:
        """Restore the bytes from the trash unless they are at their key; whether they are there now."""
        if await self._blobs.stat(key) is not None:
            return True
        self._moved.discard(digest)
        if not await self._blobs.copy(trash_key(digest), key):
            # Another process may have restored them between the two requests.
            return await self._blobs.stat(key) is not None
        log.info("artifact.brought_back", digest=digest)
        return True

    async def restore_all(self, keys: Mapping[str, str]) -> None:
        """Restore many objects, by digest."""
        await self._each(keys, self.restore)

    async def present(self, keys: Mapping[str, str]) -> set[str]:
        """The digests whose bytes are at their key or in the trash."""
        found: set[str] = set()

        async def one(digest: str, key: str) -> None:
            # In the other order, bytes that are moved between the two requests would not be found.
            for place in (key, trash_key(digest), key):
                if await self._blobs.stat(place) is not None:
                    found.add(digest)
                    return

        await self._each(keys, one)
        return found

    async def discard(self, keys: Mapping[str, str], term: HeldTerm | None = None) -> set[str]:
        """Move bytes that no run keeps, by digest, to the trash; the digests that are there now.

        With a term, nothing is removed once it is over: raises DeposedError.
        """
        await self._handler.catch_up()
        idle = {digest: key for digest, key in keys.items() if not self._is_wanted(digest)}

        async def move(digest: str, key: str) -> None:
            if await self._blobs.copy(key, trash_key(digest)):
                await self._delete(key, term)

        await self._each(idle, move)
        # A run may have claimed these bytes meanwhile.
        await self._handler.catch_up()
        claimed = {digest: key for digest, key in idle.items() if self._is_wanted(digest)}
        await self._each(claimed, self.restore)
        moved = idle.keys() - claimed.keys()
        self._moved |= moved
        return moved

    async def _delete(self, key: str, term: HeldTerm | None) -> None:
        if term is not None:
            term.check()
        await self._blobs.delete(key)

    async def _each(self, keys: Mapping[str, str], do: Callable[[str, str], Awaitable[object]]) -> None:
        """Apply `do` to each, a few at a time."""
        turns = asyncio.Semaphore(MAX_CONCURRENT)

        async def one(digest: str, key: str) -> None:
            async with turns:
                await do(digest, key)

        await asyncio.gather(*(one(digest, key) for digest, key in keys.items()))

    async def clean_up(self, term: HeldTerm) -> None:
        """Move pruned objects to the trash, erase those past their undo time, and sweep the trash.

        Raises DeposedError when the term is over.
        """
        pruned: dict[str, list[Artifact]] = {}
        for artifact in self._catalog.artifacts():
            if artifact.keeping == PRUNED:
                pruned.setdefault(artifact.digest, []).append(artifact)
        due, over = {}, []
        for digest, artifacts in pruned.items():
            if self._is_wanted(digest):
                continue
            # Only objects that this process has seen in the trash are erased.
            if digest not in self._moved:
                due[digest] = artifacts[0].key
            elif max(artifact.undo_until for artifact in artifacts) <= now_micros():
                over.append((digest, artifacts))
        if due:
            moved = await self.discard(due, term)
            log.info("artifacts.moved_to_trash", objects=len(moved))
        if over:
            await self._handler.catch_up()
            for digest, artifacts in over:
                await self._erase(digest, artifacts, term)
        await self._sweep(term)

    async def _erase(self, digest: str, artifacts: list[Artifact], term: HeldTerm) -> None:
        """Append the fact first, so that an erase and an undo exclude each other; then delete the object."""
        if self._is_wanted(digest):
            return
        for artifact in artifacts:
            try:
                await self._handler.command(artifact.run_id, Erase(now_micros(), digest), term.fence)
            except RunRefusedError:
                return
        if self._is_wanted(digest):
            return
        await self._delete(trash_key(digest), term)
        self._moved.discard(digest)
        metrics.ERASED.inc(artifacts[0].size)
        log.info("artifact.erased", digest=digest, size=artifacts[0].size)

    async def _sweep(self, term: HeldTerm) -> None:
        """Clear the trash of objects that a killed process left and of removed orphans."""
        for key, _, modified in await self._blobs.listed(TRASH_PREFIX):
            digest = key.rpartition("/")[2]
            if self._is_wanted(digest):
                if await self.restore(digest, self._key(digest)):
                    await self._delete(key, term)
                continue
            states = {a.keeping for a in self._all(digest)}
            age = (datetime.now(UTC) - modified).total_seconds()
            if PRUNED not in states and (states or age > DEFAULT_PROFILE.undo_seconds):
                await self._delete(key, term)

    def _is_wanted(self, digest: str) -> bool:
        return bool(self._catalog.kept(digest)) or self._catalog.is_unverified(digest)

    def _all(self, digest: str) -> list[Artifact]:
        found = [self._catalog.get(run_id, digest) for run_id in self._catalog.owners.get(digest, ())]
        return [artifact for artifact in found if artifact is not None]

    def _key(self, digest: str) -> str:
        return next((artifact.key for artifact in self._all(digest) if artifact.key), artifact_key(digest))
