"""Fetches the checkpoint of an actor that is chosen in a play session.

A trainer gets a file or the reason why there is none; it has no access to S3.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runspine.domain.downloads import DOWNLOADS
from runspine.play.actor_names import checkpoint_of
from runspine.services.worker.artifacts.resume import CheckpointDamagedError, fetch_for_run, stored_artifact
from runspine.storage.blobs import Blobs, BlobsUnavailableError

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


async def fetch_actor(blobs: Blobs, run_dir: Path, choice: dict[str, Any]) -> dict[str, Any]:
    """The choice with `path`, or with `trouble` when the checkpoint cannot be used."""
    actor = str(choice.get("actor", ""))
    digest = checkpoint_of(actor)
    if not digest:
        return choice
    if not _DIGEST.match(digest):
        return {**choice, "trouble": f"{digest[:80]!r} is not the SHA-256 of a checkpoint"}
    path = run_dir / DOWNLOADS / digest
    try:
        # An existing file was verified when it was fetched; only the trainer itself could have changed it.
        if not path.exists():
            await fetch_for_run(blobs, await stored_artifact(blobs, digest), run_dir, digest)
    except CheckpointDamagedError as error:
        return {**choice, "trouble": f"its checkpoint cannot be used: {error}"}
    except (BlobsUnavailableError, OSError) as error:
        return {**choice, "trouble": f"its checkpoint cannot be fetched: {error}"}
    return {**choice, "path": str(path)}
