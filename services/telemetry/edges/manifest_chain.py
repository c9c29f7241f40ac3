"""Manifests of a partition in S3: reads and follows the chain, and appends to it with a conditional put."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog

from runspine.services.telemetry.core.manifest import (
    FULL_INTERVAL,
    PREFIX,
    ArchiveState,
    ManifestChainError,
    chain_prefix,
    manifest_key,
    pack,
    unpack,
)
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Manifest

log = structlog.get_logger()

MIN_AGE = timedelta(days=1)
MAX_CERTAIN_SECONDS = 60.0


class CommitLostError(Exception):
    """Another process committed first: this one has to refresh."""


class PartitionCountError(Exception):
    """The archive has another number of partitions."""


class ManifestChain:
    """The archive of one partition, up to the last manifest read."""

    def __init__(self, blobs: RangedBlobs, partition: int, partitions: int) -> None:
        self._blobs = blobs
        self.partition = partition
        self.partitions = partitions
        self.archive = ArchiveState(partition, partitions)
        self.loaded = False
        # A query may read the newest manifest while ingest writes it.
        self._turn = asyncio.Lock()
        # When it was last certain that no later manifest exists, by the wall clock, so that time counts while
        # the process is stopped or the machine sleeps.
        self._certain = 0.0

    async def ensure_loaded(self) -> None:
        """Raises ManifestChainError, BlobsUnavailable."""
        async with self._turn:
            if not self.loaded:
                await self._load()

    async def load(self) -> None:
        """Read from the newest full manifest on. Raises ManifestChainError, BlobsUnavailable."""
        async with self._turn:
            await self._load()

    async def _load(self) -> None:
        keys = await self._blobs.keys(chain_prefix(self.partition, self.partitions))
        archive = ArchiveState(self.partition, self.partitions)
        numbers = [int(key.rsplit("/", 1)[1]) for key in keys]
        if numbers:
            start = max(1, numbers[-1] - numbers[-1] % FULL_INTERVAL)
            for number in range(start, numbers[-1] + 1):
                data = await self._blobs.get(self._key(number))
                if data is None:
                    raise ManifestChainError(f"{self._key(number)} is missing")
                archive.apply(unpack(data), data)
            await self._blobs.sync()
        self.archive = archive
        # A list may lack what was written a moment ago; a get does not.
        await self._apply_next()
        self.loaded, self._certain = True, time.time()

    async def refresh(self) -> bool:
        """Apply manifests that others committed; True if there were any."""
        async with self._turn:
            return await self._refresh()

    async def _refresh(self) -> bool:
        if not self.loaded:
            await self._load()
            return True
        moved = await self._apply_next()
        if not moved and self._is_uncertain():
            # The next manifest may have been removed already if this chain is far behind.
            keys = await self._blobs.keys(chain_prefix(self.partition, self.partitions))
            if keys and keys[-1] > self._key(self.archive.number):
                await self._load()
                moved = True
            self._certain = time.time()
        return moved

    async def _apply_next(self) -> bool:
        """Apply the manifests that follow, once they are durable: the stream forgets what they archive."""
        found: list[bytes] = []
        while data := await self._blobs.get(self._key(self.archive.number + len(found) + 1)):
            found.append(data)
        if found:
            await self._blobs.sync()
        for data in found:
            self.archive.apply(unpack(data), data)
        return bool(found)

    def _is_uncertain(self) -> bool:
        return abs(time.time() - self._certain) > MAX_CERTAIN_SECONDS

    async def commit(self, manifest: Manifest) -> None:
        """Put the next manifest. Raises CommitLostError when another process has put one."""
        data = pack(manifest)
        async with self._turn:
            # Old manifests are removed, so a free number proves nothing unless this chain is up to date.
            late = self._is_uncertain() and await self._refresh()
            if late or not await self._blobs.put_new(self._key(manifest.number), data):
                raise CommitLostError(
                    f"manifest {manifest.number} of partition {self.partition} was written by another process"
                )
            self.archive.apply(manifest, data)
            self._certain = time.time()
        if manifest.full:
            await self._remove_old(manifest.number)

    async def _remove_old(self, number: int) -> None:
        """Remove manifests before the previous full one. They stay for a day, so that a process that missed
        them cannot write one of their numbers again."""
        oldest = datetime.now(UTC) - MIN_AGE
        try:
            for key, modified in await self._blobs.aged(chain_prefix(self.partition, self.partitions)):
                if key < self._key(number - FULL_INTERVAL) and modified < oldest:
                    await self._blobs.delete(key)
        except BlobsUnavailableError as error:
            log.info("manifests.not_pruned", error=str(error))

    def _key(self, number: int) -> str:
        return manifest_key(self.partition, self.partitions, number)


async def partitionings(blobs: RangedBlobs) -> list[int]:
    """Numbers of partitions that have manifests; more than one only during a repartition."""
    keys = await blobs.keys(PREFIX)
    return sorted({int(key.removeprefix(PREFIX).partition("-")[0]) for key in keys})


class ArchiveCatalog:
    """The archives of all partitions. Each run is in one of them."""

    def __init__(self, blobs: RangedBlobs, partitions: int) -> None:
        self._blobs = blobs
        self.chains = [ManifestChain(blobs, partition, partitions) for partition in range(partitions)]

    @property
    def loaded(self) -> bool:
        return all(chain.loaded for chain in self.chains)

    async def check_partitions(self) -> None:
        """Raises PartitionCountError."""
        for made_with in await partitionings(self._blobs):
            if made_with != len(self.chains):
                raise PartitionCountError(
                    f"the archive has {made_with} partitions, not {len(self.chains)}: "
                    f"set RUNSPINE_INGEST_PARTITIONS={made_with}; or stop every telemetry service, run "
                    "`python -m runspine.services.telemetry.repartition` with this setting, and start as many"
                )

    async def follow(self, seconds: float, except_for: Sequence[ManifestChain] = ()) -> None:
        """Apply what other processes commit; the chains `except_for` are refreshed elsewhere."""
        while True:
            for chain in self.chains:
                if chain in except_for and chain.loaded:
                    continue
                try:
                    await chain.refresh()
                except (BlobsUnavailableError, ManifestChainError) as error:
                    # A server that has just started lists manifests that it does not find yet.
                    log.info("manifests.waiting", partition=chain.partition, error=str(error))
            await asyncio.sleep(seconds)
