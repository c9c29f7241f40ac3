"""Datasets on this host: fetched once, checked at every use, dropped when they are the oldest of too many."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runspine.blobs import Blobs
from runspine.datasets import BadDataset, Manifest
from runspine.datasets.archive import check_archive, check_folder, unpack
from runspine.tasks import put_down
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.spec_pb2 import Dataset
from services.worker.doubts import Doubts
from services.worker.resume import Damaged, InDoubt, Missing, fetch

log = structlog.get_logger()

# The archive and what comes out of it lie side by side for a moment.
COPIES = 2
# Less than this left on the disk, and the run is told.
SHORT_BYTES = 2 << 30
# A trainer reads its data when it starts: what was asked for lately is not dropped.
FRESH_SECONDS = 3600.0
TELL_SECONDS = 0.5
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cached:
    path: Path
    manifest: Manifest
    # For the run's log.
    notes: list[str] = field(default_factory=list)


class DatasetCache:
    def __init__(self, folder: Path, blobs: Blobs, doubts: Doubts, limit: int) -> None:
        self._folder = folder
        self._blobs = blobs
        self._doubts = doubts
        self._limit = limit
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, wanted: Dataset, tell: Tell) -> Cached:
        """The dataset, whole. Raises BadDataset, and BlobsUnavailable or InDoubt when waiting may help."""
        async with self._locks[wanted.digest]:
            notes: list[str] = []
            found = await self._here(wanted, notes)
            if found is None:
                found = await self._fetch(wanted, tell, notes)
            path = self._folder / wanted.digest
            os.utime(path)
            await asyncio.to_thread(self._drop_oldest, wanted.digest)
            return Cached(path, found, notes)

    async def _here(self, wanted: Dataset, notes: list[str]) -> Manifest | None:
        path = self._folder / wanted.digest
        if not path.is_dir():
            return None
        try:
            return await asyncio.to_thread(check_folder, path)
        except BadDataset as error:
            log.warning("dataset.damaged", digest=wanted.digest, error=str(error))
            notes.append(
                f"dataset {named(wanted)}: this host's copy was damaged ({error}): it is fetched again"
            )
            await asyncio.to_thread(remove, path)
            return None

    async def _fetch(self, wanted: Dataset, tell: Tell, notes: list[str]) -> Manifest:
        key = f"artifacts/sha256/{wanted.digest[:2]}/{wanted.digest}"
        size = await self._blobs.stat(key)
        if size is None:
            if not await self._doubts.confirmed(wanted.digest):
                raise InDoubt(
                    f"dataset {named(wanted)} is not in S3; it is looked for again before it is given up"
                )
            raise BadDataset(
                f"dataset {named(wanted)} is gone from S3: `runspine datasets ls` shows what there is"
            )
        await asyncio.to_thread(self._make_room, wanted, size, notes)
        archive = self._folder / f"{wanted.digest}.zip"
        asked = ArtifactProduced(name=archive.name, digest=wanted.digest, key=key, size=size)
        began = time.monotonic()
        try:
            async with _watching(archive.with_name(archive.name + ".part"), size, named(wanted), tell):
                await fetch(self._blobs, asked, archive)
            manifest = await asyncio.to_thread(unpack, archive, self._folder / wanted.digest)
        except Missing as error:
            if not await self._doubts.confirmed(wanted.digest):
                raise InDoubt(f"dataset {named(wanted)}: {error}") from error
            raise BadDataset(f"dataset {named(wanted)} cannot be had from S3: {error}") from error
        except Damaged as error:
            raise BadDataset(await asyncio.to_thread(_flaw, archive, named(wanted))) from error
        except BadDataset as error:
            raise BadDataset(f"dataset {named(wanted)}: {error}") from error
        finally:
            for path in (archive, archive.with_name(archive.name + ".part")):
                path.unlink(missing_ok=True)
        self._doubts.settled(wanted.digest)
        seconds = time.monotonic() - began
        notes.append(f"dataset {named(wanted)}: {megabytes(size)} fetched and checked in {seconds:.1f} s")
        return manifest

    def _make_room(self, wanted: Dataset, size: int, notes: list[str]) -> None:
        """Raises BadDataset when the disk cannot hold it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        need = size * COPIES
        if shutil.disk_usage(self._folder).free < need:
            self._drop_oldest(wanted.digest, at_most=0)
        free = shutil.disk_usage(self._folder).free
        if free < need:
            raise BadDataset(
                f"dataset {named(wanted)} needs {megabytes(need)} on its disk, and {megabytes(free)} "
                "are free: make room, or use another worker"
            )
        if free - need < SHORT_BYTES:
            notes.append(
                f"WARNING: after dataset {named(wanted)} only {megabytes(free - need)} are left on this disk"
            )

    def _drop_oldest(self, but: str, at_most: int | None = None) -> None:
        """Until the rest is no more than the limit; what may still be being read stays."""
        limit = self._limit if at_most is None else at_most
        kept = sorted(
            (path.stat().st_mtime, path)
            for path in self._folder.iterdir()
            if path.is_dir() and not path.name.startswith(".")
        )
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
    """At once, for whoever looks: renamed first, then taken apart."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.gone")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def named(wanted: Dataset) -> str:
    return wanted.name or wanted.digest[:12]


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@contextlib.asynccontextmanager
async def _watching(part: Path, size: int, name: str, tell: Tell) -> AsyncIterator[None]:
    """Say how far a download is, as long as it lasts."""

    async def watch() -> None:
        while True:
            have = await asyncio.to_thread(_so_far, part)
            tell(f"dataset {name} is being fetched: {megabytes(have)} of {megabytes(size)}")
            await asyncio.sleep(TELL_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        await put_down(watching)


def _so_far(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _flaw(archive: Path, name: str) -> str:
    """Which of its files is not what it was."""
    part = archive.with_name(archive.name + ".part")
    try:
        check_archive(part)
    except BadDataset as error:
        return f"dataset {name} has been changed in S3: {error}"
    return f"dataset {name} has been changed in S3: its files are whole, and what is around them is not"


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
