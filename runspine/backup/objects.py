"""Copies objects of the bucket to files, each once, verified by digest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from runspine.backup.index import BackupObject
from runspine.backup.target import OBJECTS, Folder, fingerprint
from runspine.storage.blobs import Blobs

MAX_CONCURRENT = 4
# The archive is copied by its manifests; the other prefixes are recreated by their services.
SKIPPED = ("telemetry/", "snapshots/", "anchors/", "probes/", "canary/", "scrub/", ".ready")


def is_wanted(key: str) -> bool:
    return not key.startswith(SKIPPED)


async def copy_objects(
    blobs: Blobs, folder: Folder, wanted: Mapping[str, tuple[int, str]]
) -> AsyncGenerator[tuple[str, BackupObject | None, str], None]:
    """Copy objects, a few at a time; yields each key with its copy, or the reason for none."""
    room = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(key: str, size: int, sha256: str) -> tuple[str, BackupObject | None, str]:
        async with room:
            return key, *await _copy(blobs, folder, key, size, sha256)

    tasks = [asyncio.create_task(one(key, *known)) for key, known in wanted.items()]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(
    blobs: Blobs, folder: Folder, key: str, size: int, sha256: str
) -> tuple[BackupObject | None, str]:
    """Copy one object. Without a `sha256` it is always copied again."""
    name = f"{OBJECTS}/{key}"
    path = folder.path_of(name)
    # The file was verified before it was renamed, but disks may damage it.
    if sha256 and path.is_file() and await asyncio.to_thread(fingerprint, path) == (size, sha256):
        return BackupObject(key, size, sha256), ""
    draft = path.with_name(f".{path.name}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not await blobs.get_file(key, draft):
            return None, "S3 does not have it"
        found_size, found = await asyncio.to_thread(fingerprint, draft)
        if sha256 and found != sha256:
            return None, f"its bytes in S3 are not those of its digest, but of {found}"
        await asyncio.to_thread(folder.adopt, draft, name)
        return BackupObject(key, found_size, found), ""
    finally:
        draft.unlink(missing_ok=True)
