"""What a session hears when an actor is chosen: one with a checkpoint comes with its file, or with a reason.

A trainer never learns how to reach the store.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runspine.blobs import Blobs, BlobsUnavailable
from services.worker.resume import Damaged, fetch, in_store

# How the names of actors begin that have a checkpoint.
FETCHED = ("policy:", "bdi:")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


async def cast(blobs: Blobs, run_dir: Path, said: dict[str, Any]) -> dict[str, Any]:
    """The same choice with `path` or `trouble`."""
    actor = str(said.get("actor", ""))
    if not actor.startswith(FETCHED):
        return said
    digest = actor.partition(":")[2]
    if not _DIGEST.match(digest):
        return {**said, "trouble": f"{digest[:80]!r} is not the SHA-256 of a checkpoint"}
    path = run_dir / "resume" / digest
    try:
        # One that is there was proven when it was fetched; only the trainer itself could have changed it.
        if not path.exists():
            await fetch(blobs, await in_store(blobs, digest), path)
    except Damaged as error:
        return {**said, "trouble": f"its checkpoint cannot be used: {error}"}
    except (BlobsUnavailable, OSError) as error:
        return {**said, "trouble": f"its checkpoint cannot be fetched: {error}"}
    return {**said, "path": str(path)}
