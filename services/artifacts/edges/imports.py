"""Imports checkpoints and datasets: stores the bytes in S3 under their digest and appends a fact."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from runspine.checkpoints import CheckpointError, inspect_checkpoint
from runspine.clock import now_micros
from runspine.datasets import DatasetError
from runspine.datasets.archive import check_archive
from runspine.domain.artifact import IMPORTS
from runspine.domain.artifact.commands import Import
from runspine.domain.artifact_kinds import CHECKPOINT, DATASET
from runspine.domain.run import RunRefusedError
from runspine.errors import Violation
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.storage.keys import artifact_key
from runspine.wire.v1.artifacts_pb2 import ImportRequest
from runspine.wire.v1.facts_pb2 import CheckpointImported

MAX_TEXT = 500
MAX_META_BYTES = 32 << 10


class ImportRefusedError(Exception):
    """The request is not an import; `violations` names each field."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations


def import_id(digest: str) -> str:
    """The id of an import follows from its bytes: the same bytes are the same import."""
    return f"{IMPORTS}{digest[:32]}"


class Imports:
    """Receives files and imports them as artifacts."""

    def __init__(self, blobs: ArtifactBlobs, handler: CommandHandler, max_bytes: int) -> None:
        self._blobs = blobs
        self._handler = handler
        self._max_bytes = max_bytes

    async def receive(self, requests: AsyncIterator[ImportRequest], by: str) -> tuple[str, bool]:
        """The import's id, and whether it is new. Raises ImportRefusedError, RunRefusedError,
        BlobsUnavailableError."""
        about = await _read_header(requests)
        with tempfile.NamedTemporaryFile(prefix="runspine-import-") as file:
            size, digest = await self._write_file(requests, file.file)
            _compare(about, size, digest)
            await asyncio.to_thread(_check, Path(file.name), about.name, about.kind)
            key = artifact_key(digest)
            await self._blobs.store(Path(file.name), key, digest)
        imported = CheckpointImported()
        imported.CopyFrom(about)
        imported.digest, imported.size, imported.key, imported.imported_by = digest, size, key, by
        place = import_id(digest)
        handled = await self._handler.command(place, Import(now_micros(), imported))
        return place, bool(handled.facts)

    async def _write_file(self, requests: AsyncIterator[ImportRequest], file: IO[bytes]) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        async for request in requests:
            if request.WhichOneof("part") != "data":
                raise ImportRefusedError(Violation("part", "after the first message only data may follow"))
            size += len(request.data)
            if size > self._max_bytes:
                raise RunRefusedError(
                    f"the file has more than {self._max_bytes >> 20:,} MiB, the limit of RUNSPINE_IMPORT_MIB"
                )
            digest.update(request.data)
            await asyncio.to_thread(file.write, request.data)
        if size == 0:
            raise ImportRefusedError(Violation("data", "the file is empty"))
        await asyncio.to_thread(file.flush)
        return size, digest.hexdigest()


async def _read_header(requests: AsyncIterator[ImportRequest]) -> CheckpointImported:
    first = await anext(aiter(requests), None)
    if first is None or first.WhichOneof("part") != "about":
        raise ImportRefusedError(Violation("about", "the first message must describe the file"))
    found = [
        Violation(f"about.{name}", f"longer than {MAX_TEXT} characters")
        for name in ("source", "env", "algo", "runner", "name", "project", "kind")
        if len(getattr(first.about, name)) > MAX_TEXT
    ]
    needed = ("env", "name") if first.about.kind == DATASET else ("env", "algo", "name")
    found += [
        Violation(f"about.{name}", f"is empty: name what the {first.about.kind or CHECKPOINT} is for")
        for name in needed
        if not getattr(first.about, name)
    ]
    if first.about.kind not in ("", CHECKPOINT, DATASET):
        found.append(
            Violation("about.kind", f"{first.about.kind!r} cannot be imported: checkpoint or dataset")
        )
    if sum(len(name) + value.ByteSize() for name, value in first.about.meta.items()) > MAX_META_BYTES:
        found.append(Violation("about.meta", f"more than {MAX_META_BYTES} bytes"))
    if found:
        raise ImportRefusedError(*found)
    return first.about


def _check(path: Path, name: str, kind: str) -> None:
    """Refuse files that would run code when loaded, or that are of another kind; the client may not have
    checked."""
    try:
        if kind == DATASET:
            check_archive(path)
        else:
            inspect_checkpoint(path, name)
    except (CheckpointError, DatasetError) as error:
        raise RunRefusedError(str(error)) from error


def _compare(about: CheckpointImported, size: int, digest: str) -> None:
    """Compare the file with the size and digest that the client announced, if any."""
    if about.size and about.size != size:
        raise ImportRefusedError(
            Violation("about.size", f"{about.size:,} were announced, {size:,} bytes arrived")
        )
    if about.digest and about.digest != digest:
        raise ImportRefusedError(Violation("about.digest", "the bytes that arrived have another SHA-256"))
