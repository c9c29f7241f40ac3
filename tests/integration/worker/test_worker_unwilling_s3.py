"""An S3 server that does not take one object, or has it damaged on its disk: nothing else is held up."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.eventlog.subjects import attempts_subject
from runspine.ids import new_ulid
from runspine.services.worker.artifacts.intents import Intent
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs
from tests.kit.servers.s3 import S3Server, flip_in_volume
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay


class Unwilling(FileBlobs):
    """S3, but for one object."""

    refused = ""

    async def store(self, source: Path | BinaryIO, key: str, digest: str, *, replace: bool = False) -> bool:
        if digest == self.refused:
            raise BlobsUnavailableError("not this one")
        return await super().store(source, key, digest, replace=replace)


def intent(folder: Path, number: int) -> Intent:
    data = f"checkpoint {number}".encode()
    path = folder / f"{number}.bin"
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return Intent(new_ulid(), "r1", 1, CHECKPOINT, path.name, str(path), "", digest, len(data), number)


async def test_a_file_that_is_not_taken_lets_the_others_go_first(
    connect: Any, s3_server: S3Server, tmp_path: Path
) -> None:
    mine = await connect("w1")
    await s3_server.ready()
    blobs, fact_writer = Unwilling(s3_server.settings()), FactWriter(mine.log)
    precedence = Precedence(SpoolDirectory(tmp_path, 1 << 20), fact_writer, "w1")
    uploads = Uploads(tmp_path / "uploads", blobs, fact_writer, precedence)
    due = [intent(tmp_path, number) for number in range(6)]
    blobs.refused = due[0].digest

    async def received() -> list[int]:
        history, _ = await mine.log.read(attempts_subject("r1"))
        return sorted(fact.artifact_produced.step for one in history for fact in one.commit.facts)

    async def others() -> bool:
        return await received() == [1, 2, 3, 4, 5]

    async def everything() -> bool:
        return await received() == [0, 1, 2, 3, 4, 5]

    sending = asyncio.create_task(uploads.run())
    for each in due:
        await uploads.add(each)
    await eventually(others)
    # And it is not forgotten.
    blobs.refused = ""
    await eventually(everything)
    sending.cancel()


# The same bytes each time, as of a trainer that starts over. No text: the server would compress it.
SAME_AGAIN = """
import json, random
for step in (1, 2):
    open(f"{step}.bin", "wb").write(random.Random(step).randbytes(16_000))
    print(json.dumps(dict(type="artifact", kind="checkpoint", path=f"{step}.bin", step=step)), flush=True)
"""


@pytest.mark.long
async def test_an_object_that_the_server_can_no_longer_read_is_stored_again(frail: Bay) -> None:
    """It answers 500 for it for ever. Once, that held up every upload of a worker."""
    frail.worker()
    first = await frail.python(SAME_AGAIN)
    damaged, _ = await frail.artifacts(first, 2)
    blobs = FileBlobs(frail.s3.settings())
    data = await blobs.get(damaged.key)
    assert data is not None
    frail.s3.stop()
    flip_in_volume(frail.s3.directory, data)
    frail.s3.start()
    await frail.s3.ready()
    second = await frail.python(SAME_AGAIN)
    found = await frail.artifacts(second, 2)
    assert found[0].digest == damaged.digest
    for artifact in found:
        assert await blobs.digest(artifact.key) == artifact.digest
