"""Objects of the bucket as files, copied once and proven by their digest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping

from runspine.backup.index import Kept
from runspine.backup.shelf import OBJECTS, Folder, fingerprint
from runspine.blobs import Blobs

AT_ONCE = 4
PLACE, TRASH = "artifacts/sha256/", "trash/sha256/"
# Named by what is in them, so a copy stays right.
_BY_DIGEST = re.compile(r"(?:artifacts|trash)/sha256/[0-9a-f]{2}/([0-9a-f]{64})\Z")
# The archive is copied by its manifests; the others are made anew by whoever needs them.
LEFT_OUT = ("telemetry/", "snapshots/", "probes/", "canary/", "scrub/", ".ready")


def digest_in(key: str) -> str:
    """The SHA-256 that a key promises; empty when it promises none."""
    found = _BY_DIGEST.match(key)
    return found[1] if found else ""


def is_wanted(key: str) -> bool:
    return not key.startswith(LEFT_OUT)


async def copy_objects(
    blobs: Blobs, folder: Folder, wanted: Mapping[str, tuple[int, str]]
) -> AsyncGenerator[tuple[str, Kept | None, str], None]:
    """Each key with what was kept of it, and why when nothing was; a few at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(key: str, size: int, sha256: str) -> tuple[str, Kept | None, str]:
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


async def _copy(blobs: Blobs, folder: Folder, key: str, size: int, sha256: str) -> tuple[Kept | None, str]:
    """An empty `sha256` promises nothing: such an object is always copied anew."""
    name = f"{OBJECTS}/{key}"
    path = folder.place(name)
    # It got its name after it was proven, but disks forget.
    if sha256 and path.is_file() and await asyncio.to_thread(fingerprint, path) == (size, sha256):
        return Kept(key, size, sha256), ""
    draft = path.with_name(f".{path.name}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not await blobs.get_file(key, draft):
            return None, "S3 does not have it"
        found_size, found = await asyncio.to_thread(fingerprint, draft)
        if sha256 and found != sha256:
            return None, f"its bytes in S3 are not those of its digest, but of {found}"
        await asyncio.to_thread(folder.adopt, draft, name)
        return Kept(key, found_size, found), ""
    finally:
        draft.unlink(missing_ok=True)
