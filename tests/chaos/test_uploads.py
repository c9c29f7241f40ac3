"""S3 killed again and again, and a machine that loses power: all that the log lists as stored can be read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.power import PowerDomain, power_domain
from tests.kit.servers.s3 import S3Server
from tests.kit.worker_with_s3 import Bay, open_bay

# The promise is for 1,000 uploads and 10 kills; CI does fewer.
UPLOADS = int(os.environ.get("RUNSPINE_TEST_UPLOADS", "60"))
KILLS = 10 if UPLOADS >= 1000 else 4
# Small files, sometimes the same bytes again, and now and then one that travels in parts.
TRAINER = """
import hashlib, json, os, sys, time
count, pause = int(sys.argv[1]), float(sys.argv[2])
for n in range(count):
    data = b"the same" if n % 10 == 9 else os.urandom(20_000_000 if n == count // 2 else 3000)
    with open(f"draft", "wb") as file:
        file.write(data)
    os.replace("draft", f"file-{n}")
    record = {"type": "artifact", "kind": "model", "path": f"file-{n}",
              "meta": {"sha256": hashlib.sha256(data).hexdigest()}}
    print(json.dumps(record), flush=True)
    time.sleep(pause)
"""


async def check_all(blobs: FileBlobs, artifacts: list[ArtifactProduced]) -> None:
    """Everything that is on the log can be read, and has the digest that the log states."""
    for artifact in artifacts:
        assert artifact.digest == artifact.meta["sha256"].text
        assert await blobs.digest(artifact.key) == artifact.digest, artifact.name


@pytest.mark.chaos
@pytest.mark.timeout(600 + 2 * UPLOADS)
async def test_s3_killed_again_and_again_under_uploads_costs_none_of_them(frail: Bay) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    frail.worker(RUNSPINE_UPLOAD_WAIT="1")
    pause = 2.0 * KILLS / UPLOADS
    run_id = await frail.submit("python", "-c", TRAINER, str(UPLOADS), str(pause))
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.3, 1.5))
        frail.s3.stop()
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        frail.s3.start()
        await frail.s3.ready()
    assert (await frail.exited(run_id, seconds=120)).exit_code == 0
    found = await frail.artifacts(run_id, UPLOADS, seconds=120 + UPLOADS)
    assert sorted(a.name for a in found) == sorted(f"file-{n}" for n in range(UPLOADS))
    blobs = FileBlobs(frail.s3.settings())
    await check_all(blobs, found)
    assert len({artifact.key for artifact in found}) == UPLOADS - UPLOADS // 10 + 1
    assert await blobs.abort_uploads("artifacts/sha256/") == 0, "no parts are left lying about"


@pytest.fixture
def power(tmp_path: Path) -> Iterator[PowerDomain]:
    with power_domain(tmp_path) as domain:
        yield domain


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_after_a_loss_of_power_everything_on_the_log_is_still_in_s3(
    power: PowerDomain, nats_server: NatsServer, connect: Any, tmp_path: Path
) -> None:
    s3 = S3Server(power.place)
    s3.start()
    try:
        async with open_bay(nats_server, s3, connect, tmp_path) as bay:
            # The setting that a worker has for an embedded server.
            worker = bay.worker(RUNSPINE_S3_SYNC_DIR=str(power.place), RUNSPINE_UPLOAD_WAIT="1")
            run_id = await bay.submit("python", "-c", TRAINER, "1000", "0.01")
            blobs = FileBlobs(s3.settings())
            unsynced = {f"unsynced/{n}": os.urandom(3000) for n in range(20)}
            await bay.artifacts(run_id, 10, seconds=120)
            worker.kill()
            for key, data in unsynced.items():
                await blobs.put(key, data)
            power.cut()
            s3.stop()
            received = await bay.artifacts(run_id)
            power.unmount()
            power.mount()
            s3.start()
            await s3.ready()
            await check_all(blobs, received)
            lost = [key for key, data in unsynced.items() if await read(blobs, key) != sha256(data)]
            assert lost, "the power was cut in name only: what was never synced is there as well"
            print(f"{len(received)} on the log and whole; of {len(unsynced)} never synced, {len(lost)} lost")
    finally:
        s3.stop()


async def read(blobs: FileBlobs, key: str) -> str | None:
    try:
        return await blobs.digest(key)
    except BlobsUnavailableError:
        return None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
