"""Code trees in S3: files and manifests by digest, stored once, kept while a run refers to them.

A manifest is stored after all its files, so a manifest that is there is a whole tree. Objects that no run
refers to are orphans after the grace period; half of it earlier they count as missing, so that a client
stores them again before they can be removed under it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime

import structlog

from runspine.code.tree import (
    DIGEST,
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_MANIFEST_BYTES,
    CodeTree,
    CodeTreeError,
    parse_tree,
)
from runspine.domain.run import RunRefusedError
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.storage.keys import code_key, packages_key
from runspine.wire.v1.artifacts_pb2 import StoreCodeRequest

log = structlog.get_logger()

MAX_CONCURRENT = 16
# Objects that are stored together.
MAX_TOGETHER_BYTES = 8 << 20
MAX_TOGETHER = 256
# Manifests that one question may read; the inventory reads the others.
MAX_MERGED = 20


class CodeStore:
    """Stores and finds objects of code trees."""

    def __init__(self, blobs: ArtifactBlobs, catalog: ArtifactCatalog, grace: float) -> None:
        self._blobs = blobs
        self._catalog = catalog
        self._grace = grace
        # Files of trees that runs refer to, as bytes, and the trees whose manifests were read for it.
        self._live: set[bytes] = set()
        self._merged: set[str] = set()

    async def missing_tree(self, digest: str) -> bool:
        """Whether a tree must be stored."""
        if digest in self._catalog.code_trees:
            return await self._blobs.stat(code_key(digest, tree=True)) is None
        return not await self._is_young(code_key(digest, tree=True))

    async def missing(self, digests: Iterable[str]) -> list[str]:
        """The files that must be stored."""
        await self._merge(MAX_MERGED)
        unknown = [digest for digest in digests if not self._is_live(digest)]
        turns = asyncio.Semaphore(MAX_CONCURRENT)

        async def young(digest: str) -> bool:
            async with turns:
                return await self._is_young(code_key(digest))

        found = await asyncio.gather(*(young(digest) for digest in unknown))
        return [digest for digest, there in zip(unknown, found, strict=True) if not there]

    async def receive(self, requests: AsyncIterator[StoreCodeRequest]) -> tuple[int, int]:
        """Store the objects of a stream; their number and bytes. Raises RunRefusedError,
        BlobsUnavailableError."""
        batch = _Batch(self._blobs)
        objects = total = 0
        async for digest, data, tree in _objects(requests):
            objects, total = objects + 1, total + len(data)
            if total > MAX_BYTES + MAX_MANIFEST_BYTES or objects > MAX_FILES + 2:
                raise RunRefusedError(
                    f"more than {MAX_BYTES >> 20} MiB or {MAX_FILES:,} files of code at once"
                )
            if tree:
                await batch.store()
                await self._store_tree(digest, data, batch.stored)
            else:
                await batch.add(digest, data)
        await batch.store()
        return objects, total

    async def read(self, digest: str, *, tree: bool = False, packages: bool = False) -> bytes | None:
        """The bytes of an object; None when it is not stored. Raises RunRefusedError when it is damaged."""
        if not DIGEST.match(digest):
            return None
        key = packages_key(digest) if packages else code_key(digest, tree=tree)
        data = await self._blobs.get(key)
        if data is not None and hashlib.sha256(data).hexdigest() != digest:
            raise RunRefusedError(f"the object {digest[:12]} in S3 does not have this SHA-256: it is damaged")
        return data

    async def referenced(self, keys: Iterable[str]) -> set[str]:
        """The keys among these that belong to code of runs."""
        await self._merge(len(self._catalog.code_trees))
        trees = {code_key(digest, tree=True) for digest in self._catalog.code_trees}
        return {key for key in keys if key in trees or self._is_live(key.rpartition("/")[2])}

    async def discard(self, keys: Mapping[str, str]) -> set[str]:
        """Remove orphans, by digest; those that were stored again or referred to meanwhile stay."""
        removed = set()
        used = await self.referenced(keys.values())
        for digest, key in keys.items():
            if key not in used and not await self._is_young(key):
                await self._blobs.delete(key)
                removed.add(digest)
        return removed

    def _is_live(self, digest: str) -> bool:
        return digest in self._catalog.code_diffs or (
            bool(DIGEST.match(digest)) and bytes.fromhex(digest) in self._live
        )

    async def _is_young(self, key: str) -> bool:
        found = [item for item in await self._blobs.listed(key) if item.key == key]
        ages = [(datetime.now(UTC) - item.modified).total_seconds() for item in found]
        return bool(ages) and ages[0] < self._grace / 2

    async def _merge(self, limit: int) -> None:
        """Read manifests of trees that runs refer to; each is read once."""
        for digest in list(self._catalog.code_trees - self._merged)[:limit]:
            try:
                data = await self.read(digest, tree=True)
                tree = await asyncio.to_thread(parse_tree, data) if data is not None else None
            except (CodeTreeError, RunRefusedError) as error:
                log.warning("code.unreadable", tree=digest, error=str(error))
                continue
            if tree is not None:
                self._live |= {bytes.fromhex(entry.digest) for entry in tree.files}
                self._merged.add(digest)

    async def _store_tree(self, digest: str, data: bytes, stored: set[str]) -> None:
        tree = await asyncio.to_thread(_parse, data)
        left = {entry.digest for entry in tree.files} - stored
        if missing := await self.missing(sorted(left)):
            raise RunRefusedError(f"{len(missing):,} files of the tree are not stored: submit again")
        await self._blobs.put(code_key(digest, tree=True), data)
        log.info("code.stored", tree=digest, files=len(tree.files), bytes=tree.bytes)


class _Batch:
    """Objects that are stored together, so that the disk is synced once for many."""

    def __init__(self, blobs: ArtifactBlobs) -> None:
        self._blobs = blobs
        self._waiting: dict[str, bytes] = {}
        self._bytes = 0
        self.stored: set[str] = set()

    async def add(self, digest: str, data: bytes) -> None:
        self._waiting[digest] = data
        self._bytes += len(data)
        if self._bytes >= MAX_TOGETHER_BYTES or len(self._waiting) >= MAX_TOGETHER:
            await self.store()

    async def store(self) -> None:
        if self._waiting:
            await self._blobs.put_all({code_key(digest): data for digest, data in self._waiting.items()})
        self.stored |= self._waiting.keys()
        self._waiting, self._bytes = {}, 0


async def _objects(requests: AsyncIterator[StoreCodeRequest]) -> AsyncIterator[tuple[str, bytes, bool]]:
    """Whole objects of a stream, each with the digest it has. Raises RunRefusedError."""
    digest, data = "", bytearray()
    async for piece in requests:
        if not digest:
            digest = piece.digest
        if piece.digest != digest or not DIGEST.match(digest):
            raise RunRefusedError(
                f"digest: {piece.digest[:80]!r} is not the SHA-256 of the object being sent"
            )
        data += piece.data
        limit = MAX_MANIFEST_BYTES if piece.tree else MAX_FILE_BYTES
        if len(data) > limit:
            raise RunRefusedError(f"object {digest[:12]} has more than {limit >> 20} MiB")
        if piece.end:
            whole = bytes(data)
            if hashlib.sha256(whole).hexdigest() != digest:
                raise RunRefusedError(f"the bytes of object {digest[:12]} have another SHA-256")
            yield digest, whole, piece.tree
            digest, data = "", bytearray()
    if digest:
        raise RunRefusedError(f"the stream ended within object {digest[:12]}")


def _parse(data: bytes) -> CodeTree:
    try:
        return parse_tree(data)
    except CodeTreeError as error:
        raise RunRefusedError(f"the tree is refused: {error}") from error
