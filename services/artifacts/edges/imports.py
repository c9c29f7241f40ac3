"""Takes in checkpoints and datasets from outside: bytes to S3 under their digest, a card on the log."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from runspine.artifact import CHECKPOINT, IMPORTS
from runspine.artifact.commands import Import
from runspine.artifact_blobs import ArtifactBlobs
from runspine.checkpoints import BadCheckpoint, look
from runspine.datasets import DATASET, BadDataset
from runspine.datasets.archive import check_archive
from runspine.errors import Violation
from runspine.run import Refused
from runspine.wire.v1.artifacts_pb2 import ImportRequest
from runspine.wire.v1.facts_pb2 import CheckpointImported
from services.artifacts.edges.clerk import Clerk, wall_clock
from services.artifacts.edges.storekeeper import place_of

LONGEST = 500
MOST_META = 32 << 10


class NotAccepted(Exception):
    """What was sent is not an import; `violations` names each field."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations


def import_id(digest: str) -> str:
    """The same bytes are the same import, however often they are sent."""
    return f"{IMPORTS}{digest[:32]}"


class Imports:
    def __init__(self, blobs: ArtifactBlobs, clerk: Clerk, most_bytes: int) -> None:
        self._blobs = blobs
        self._clerk = clerk
        self._most = most_bytes

    async def take(self, requests: AsyncIterator[ImportRequest], by: str) -> tuple[str, bool]:
        """The import's id, and whether it is new. Raises NotAccepted, Refused, BlobsUnavailable."""
        about = await _first(requests)
        with tempfile.NamedTemporaryFile(prefix="runspine-import-") as file:
            size, digest = await self._receive(requests, file.file)
            _compare(about, size, digest)
            await asyncio.to_thread(_check, Path(file.name), about.name, about.kind)
            key = place_of(digest)
            await self._blobs.store(Path(file.name), key, digest)
        imported = CheckpointImported()
        imported.CopyFrom(about)
        imported.digest, imported.size, imported.key, imported.imported_by = digest, size, key, by
        place = import_id(digest)
        handled = await self._clerk.command(place, Import(wall_clock(), imported))
        return place, bool(handled.facts)

    async def _receive(self, requests: AsyncIterator[ImportRequest], file: IO[bytes]) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        async for request in requests:
            if request.WhichOneof("part") != "data":
                raise NotAccepted(Violation("part", "after the first message only data may follow"))
            size += len(request.data)
            if size > self._most:
                raise Refused(
                    f"the file has more than {self._most >> 20:,} MiB; RUNSPINE_IMPORT_MIB sets the limit"
                )
            digest.update(request.data)
            await asyncio.to_thread(file.write, request.data)
        if size == 0:
            raise NotAccepted(Violation("data", "the file is empty"))
        await asyncio.to_thread(file.flush)
        return size, digest.hexdigest()


async def _first(requests: AsyncIterator[ImportRequest]) -> CheckpointImported:
    first = await anext(aiter(requests), None)
    if first is None or first.WhichOneof("part") != "about":
        raise NotAccepted(Violation("about", "the first message must say what the file is"))
    flaws = [
        Violation(f"about.{name}", f"longer than {LONGEST} characters")
        for name in ("source", "env", "algo", "runner", "name", "project", "kind")
        if len(getattr(first.about, name)) > LONGEST
    ]
    needed = ("env", "name") if first.about.kind == DATASET else ("env", "algo", "name")
    flaws += [
        Violation(f"about.{name}", f"is empty: say what the {first.about.kind or 'checkpoint'} is for")
        for name in needed
        if not getattr(first.about, name)
    ]
    if first.about.kind not in ("", CHECKPOINT, DATASET):
        flaws.append(
            Violation("about.kind", f"{first.about.kind!r} cannot be imported: checkpoint or dataset")
        )
    if sum(len(name) + value.ByteSize() for name, value in first.about.meta.items()) > MOST_META:
        flaws.append(Violation("about.meta", f"more than {MOST_META} bytes"))
    if flaws:
        raise NotAccepted(*flaws)
    return first.about


def _check(path: Path, name: str, kind: str) -> None:
    """Whoever sent it may not have looked: what would run code, or is something else, stays outside."""
    try:
        if kind == DATASET:
            check_archive(path)
        else:
            look(path, name)
    except (BadCheckpoint, BadDataset) as error:
        raise Refused(str(error)) from error


def _compare(about: CheckpointImported, size: int, digest: str) -> None:
    """The sender may say what it sends; then it must have arrived so."""
    if about.size and about.size != size:
        raise NotAccepted(Violation("about.size", f"{about.size:,} were announced, {size:,} bytes arrived"))
    if about.digest and about.digest != digest:
        raise NotAccepted(Violation("about.digest", "the bytes that arrived have another SHA-256"))
