"""Cache of datasets on this host: fetched once, checked at every use, evicted oldest first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runspine.datasets import DatasetError, Manifest
from runspine.datasets.archive import check_archive, check_folder, unpack
from runspine.services.worker.artifacts.resume import (
    CheckpointDamagedError,
    CheckpointMissingError,
    CheckpointUnconfirmedError,
    fetch,
)
from runspine.storage.blobs import Blobs
from runspine.storage.keys import artifact_key
from runspine.storage.missing import MissingObjects
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.run_pb2 import CachedDataset
from runspine.wire.v1.spec_pb2 import Dataset

log = structlog.get_logger()

# The archive and its unpacked files are on disk at the same time for a moment.
COPIES = 2
# With less than this left on the disk, the run's log has a warning.
LOW_DISK_BYTES = 2 << 30
# A trainer reads its dataset when it starts: recently used ones are not evicted.
FRESH_SECONDS = 3600.0
REPORT_SECONDS = 0.5
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cached:
    """A dataset on this host."""

    path: Path
    manifest: Manifest
    # For the run's log.
    notes: list[str] = field(default_factory=list)


class DatasetCache:
    """Fetches datasets from S3 by digest and keeps them unpacked within a limit of bytes."""

    def __init__(self, folder: Path, blobs: Blobs, missing: MissingObjects, limit: int) -> None:
        self._folder = folder
        self._blobs = blobs
        self._missing = missing
        self._limit = limit
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, wanted: Dataset, report: Report) -> Cached:
        """The dataset, checked.

        Raises DatasetError, and BlobsUnavailableError or CheckpointUnconfirmedError when waiting may help.
        """
        async with self._locks[wanted.digest]:
            notes: list[str] = []
            found = await self._check_copy(wanted, notes)
            if found is None:
                found = await self._fetch(wanted, report, notes)
            path = self._folder / wanted.digest
            os.utime(path)
            await asyncio.to_thread(self._evict, wanted.digest)
            return Cached(path, found, notes)

    def contents(self) -> list[CachedDataset]:
        """The datasets on this host, the most recently used first. Blocks."""
        found = []
        for path in self._folders():
            with contextlib.suppress(FileNotFoundError):  # evicted meanwhile
                used_at = int(path.stat().st_mtime * 1e6)
                found.append(CachedDataset(digest=path.name, bytes=_bytes(path), used_at=used_at))
        return sorted(found, key=lambda each: -each.used_at)

    async def prune(self, wanted: Collection[str] | None, in_use: Collection[str], fresh: float) -> list[str]:
        """Remove these datasets, or all; those in use, and those used in the last `fresh` seconds, stay."""
        removed = []
        for path in await asyncio.to_thread(self._folders):
            if (wanted is not None and path.name not in wanted) or path.name in in_use:
                continue
            async with self._locks[path.name]:
                if path.is_dir() and time.time() - path.stat().st_mtime > fresh:
                    await asyncio.to_thread(remove, path)
                    removed.append(path.name)
        return removed

    def _folders(self) -> list[Path]:
        """Folders of datasets; drafts and those being removed begin with a dot."""
        if not self._folder.is_dir():
            return []
        return [path for path in self._folder.iterdir() if path.is_dir() and not path.name.startswith(".")]

    async def _check_copy(self, wanted: Dataset, notes: list[str]) -> Manifest | None:
        path = self._folder / wanted.digest
        if not path.is_dir():
            return None
        try:
            return await asyncio.to_thread(check_folder, path)
        except DatasetError as error:
            log.warning("dataset.damaged", digest=wanted.digest, error=str(error))
            notes.append(
                f"dataset {label(wanted)}: this host's copy was damaged ({error}): it is fetched again"
            )
            await asyncio.to_thread(remove, path)
            return None

    async def _fetch(self, wanted: Dataset, report: Report, notes: list[str]) -> Manifest:
        key = artifact_key(wanted.digest)
        size = await self._blobs.stat(key)
        if size is None:
            if not await self._missing.confirmed(wanted.digest):
                raise CheckpointUnconfirmedError(
                    f"dataset {label(wanted)} is not in S3; it is requested again before it is given up"
                )
            raise DatasetError(
                f"dataset {label(wanted)} is gone from S3: `runspine datasets ls` shows what there is"
            )
        await asyncio.to_thread(self._make_room, wanted, size, notes)
        archive = self._folder / f"{wanted.digest}.zip"
        artifact = ArtifactProduced(name=archive.name, digest=wanted.digest, key=key, size=size)
        began = time.monotonic()
        try:
            async with _reporting(archive.with_name(archive.name + ".part"), size, label(wanted), report):
                await fetch(self._blobs, artifact, archive)
            manifest = await asyncio.to_thread(unpack, archive, self._folder / wanted.digest)
        except CheckpointMissingError as error:
            if not await self._missing.confirmed(wanted.digest):
                raise CheckpointUnconfirmedError(f"dataset {label(wanted)}: {error}") from error
            raise DatasetError(f"dataset {label(wanted)} cannot be had from S3: {error}") from error
        except CheckpointDamagedError as error:
            raise DatasetError(await asyncio.to_thread(_describe_damage, archive, label(wanted))) from error
        except DatasetError as error:
            raise DatasetError(f"dataset {label(wanted)}: {error}") from error
        finally:
            for path in (archive, archive.with_name(archive.name + ".part")):
                path.unlink(missing_ok=True)
        self._missing.settled(wanted.digest)
        seconds = time.monotonic() - began
        notes.append(f"dataset {label(wanted)}: {megabytes(size)} fetched and checked in {seconds:.1f} s")
        return manifest

    def _make_room(self, wanted: Dataset, size: int, notes: list[str]) -> None:
        """Raises DatasetError when the disk cannot hold it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        need = size * COPIES
        if shutil.disk_usage(self._folder).free < need:
            self._evict(wanted.digest, at_most=0)
        free = shutil.disk_usage(self._folder).free
        if free < need:
            raise DatasetError(
                f"dataset {label(wanted)} needs {megabytes(need)} on its disk, and {megabytes(free)} "
                "are free: make room, or use another worker"
            )
        if free - need < LOW_DISK_BYTES:
            notes.append(
                f"WARNING: after dataset {label(wanted)} only {megabytes(free - need)} are left on this disk"
            )

    def _evict(self, but: str, at_most: int | None = None) -> None:
        """Evict until the rest is within the limit; what a trainer may still read stays."""
        limit = self._limit if at_most is None else at_most
        kept = sorted((path.stat().st_mtime, path) for path in self._folders())
        total = sum(_bytes(path) for _, path in kept)
        for used, path in kept:
            if total <= limit:
                return
            if path.name == but or time.time() - used < FRESH_SECONDS:
                continue
            size = _bytes(path)
            remove(path)
            total -= size
            log.info("dataset.dropped", digest=path.name, bytes=size)


def remove(path: Path) -> None:
    """Remove a folder atomically for other readers: rename it, then delete its files."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.gone")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def label(wanted: Dataset) -> str:
    """The dataset's name, or the beginning of its digest."""
    return wanted.name or wanted.digest[:12]


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e6:,.1f} MB"


@contextlib.asynccontextmanager
async def _reporting(part: Path, size: int, name: str, report: Report) -> AsyncIterator[None]:
    """Report the progress of a download while it lasts."""

    async def watch() -> None:
        while True:
            done = await asyncio.to_thread(_downloaded, part)
            report(f"dataset {name} is being fetched: {megabytes(done)} of {megabytes(size)}")
            await asyncio.sleep(REPORT_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        await cancel_and_wait(watching)


def _downloaded(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _describe_damage(archive: Path, name: str) -> str:
    """Which file of the archive is damaged."""
    part = archive.with_name(archive.name + ".part")
    try:
        check_archive(part)
    except DatasetError as error:
        return f"dataset {name} has been changed in S3: {error}"
    return f"dataset {name} has been changed in S3: its files are whole, and what is around them is not"


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
