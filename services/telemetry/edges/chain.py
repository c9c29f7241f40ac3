"""One partition's manifests in S3: read, followed, and added to by whoever is first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog

from runspine.blobs import BlobsUnavailable
from runspine.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Manifest
from services.telemetry.core.manifest import (
    FULL_EVERY,
    PREFIX,
    Archive,
    Broken,
    chain_prefix,
    manifest_key,
    pack,
    unpack,
)

log = structlog.get_logger()

KEPT = timedelta(days=1)
CERTAIN_SECONDS = 60.0


class Lost(Exception):
    """Another process committed first: this one has to read again."""


class OtherPartitions(Exception):
    """The archive was made with another number of partitions."""


class Chain:
    """The archive of one partition, as far as it was read."""

    def __init__(self, blobs: RangedBlobs, partition: int, partitions: int) -> None:
        self._blobs = blobs
        self.partition = partition
        self.partitions = partitions
        self.archive = Archive(partition, partitions)
        self.loaded = False
        # A question may want the newest manifest while ingest is writing it.
        self._turn = asyncio.Lock()
        # When it was last certain that no later manifest exists, by the clock on the wall: a process
        # that was stopped, or a machine that slept, must notice.
        self._certain = 0.0

    async def ensure_loaded(self) -> None:
        """Raises Broken, BlobsUnavailable."""
        async with self._turn:
            if not self.loaded:
                await self._load()

    async def load(self) -> None:
        """Read from the newest full manifest on. Raises Broken, BlobsUnavailable."""
        async with self._turn:
            await self._load()

    async def _load(self) -> None:
        keys = await self._blobs.keys(chain_prefix(self.partition, self.partitions))
        archive = Archive(self.partition, self.partitions)
        numbers = [int(key.rsplit("/", 1)[1]) for key in keys]
        if numbers:
            start = max(1, numbers[-1] - numbers[-1] % FULL_EVERY)
            for number in range(start, numbers[-1] + 1):
                data = await self._blobs.get(self._key(number))
                if data is None:
                    raise Broken(f"{self._key(number)} is missing")
                archive.apply(unpack(data), data)
        self.archive, self.loaded, self._certain = archive, True, time.time()

    async def refresh(self) -> bool:
        """Take up what others have committed; whether there was anything."""
        async with self._turn:
            return await self._refresh()

    async def _refresh(self) -> bool:
        if not self.loaded:
            await self._load()
            return True
        moved = False
        while data := await self._blobs.get(self._key(self.archive.number + 1)):
            self.archive.apply(unpack(data), data)
            moved = True
        if not moved and self._is_uncertain():
            # Far behind, the next one may have been removed long ago.
            keys = await self._blobs.keys(chain_prefix(self.partition, self.partitions))
            if keys and keys[-1] > self._key(self.archive.number):
                await self._load()
                moved = True
            self._certain = time.time()
        return moved

    def _is_uncertain(self) -> bool:
        return abs(time.time() - self._certain) > CERTAIN_SECONDS

    async def commit(self, manifest: Manifest) -> None:
        """Put the next manifest. Raises Lost when there is one of another process."""
        data = pack(manifest)
        async with self._turn:
            # Old manifests are removed, so that a number is free says something only to who is up to date.
            late = self._is_uncertain() and await self._refresh()
            if late or not await self._blobs.put_new(self._key(manifest.number), data):
                raise Lost(f"manifest {manifest.number} of partition {self.partition} is another process's")
            self.archive.apply(manifest, data)
            self._certain = time.time()
        if manifest.full:
            await self._forget_old(manifest.number)

    async def _forget_old(self, number: int) -> None:
        """Of the manifests before the full one before this, nothing is needed. They stay for a day: while
        its successor exists, no manifest can be written twice by whoever missed it."""
        oldest = datetime.now(UTC) - KEPT
        try:
            for key, modified in await self._blobs.aged(chain_prefix(self.partition, self.partitions)):
                if key < self._key(number - FULL_EVERY) and modified < oldest:
                    await self._blobs.delete(key)
        except BlobsUnavailable as error:
            log.info("manifests.not_pruned", error=str(error))

    def _key(self, number: int) -> str:
        return manifest_key(self.partition, self.partitions, number)


async def partitionings(blobs: RangedBlobs) -> list[int]:
    """The numbers of partitions that there are manifests of; more than one only in mid-change."""
    keys = await blobs.keys(PREFIX)
    return sorted({int(key.removeprefix(PREFIX).partition("-")[0]) for key in keys})


class Catalog:
    """Every partition's archive. A run lies in one of them."""

    def __init__(self, blobs: RangedBlobs, partitions: int) -> None:
        self._blobs = blobs
        self.chains = [Chain(blobs, partition, partitions) for partition in range(partitions)]

    @property
    def loaded(self) -> bool:
        return all(chain.loaded for chain in self.chains)

    async def check_partitions(self) -> None:
        """Raises OtherPartitions."""
        for made_with in await partitionings(self._blobs):
            if made_with != len(self.chains):
                raise OtherPartitions(
                    f"the archive was made with {made_with} partitions, not {len(self.chains)}: "
                    f"set RUNSPINE_INGEST_PARTITIONS={made_with}; or stop every telemetry service, run "
                    "`python -m services.telemetry.repartition` with this setting, and start as many"
                )

    async def follow(self, every: float, but: Sequence[Chain] = ()) -> None:
        """Keep up with what other processes commit; `but` are kept up elsewhere."""
        while True:
            for chain in self.chains:
                if chain in but and chain.loaded:
                    continue
                try:
                    await chain.refresh()
                except BlobsUnavailable as error:
                    log.info("manifests.waiting", partition=chain.partition, error=str(error))
            await asyncio.sleep(every)
