"""What a restarted S3 does not find yet, or has lost, ends no service, and nothing was built on it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from unittest.mock import patch

from runspine.services.telemetry.core.manifest import ArchiveState, manifest_key, pack
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog, ManifestChain
from runspine.settings import ServiceSettings
from runspine.storage import blobs as storage
from runspine.storage.ranged_blobs import RangedS3Blobs
from tests.kit.waiting import eventually
from tests.simulation.s3.link import answering
from tests.simulation.s3.server import Answer, Request, S3Model, error


def test_a_manifest_of_a_killed_process_is_durable_before_it_is_built_on() -> None:
    model = S3Model(time.time)
    manifest = pack(ArchiveState(0, 1).next(cursor=7, at=1, writer="w"))
    with (
        answering(model.answer),
        patch.object(storage, "sync_filesystem", lambda _: model.sync()),
    ):
        # Its sync did not come to pass.
        asyncio.run(RangedS3Blobs(ServiceSettings()).put_new(manifest_key(0, 1, 1), manifest))
        chain = ManifestChain(RangedS3Blobs(ServiceSettings(s3_sync_dir=Path())), 0, 1)
        asyncio.run(chain.refresh())
    assert chain.archive.cursor == 7
    assert model.lose_power(Random(1)) == 0


def test_a_listed_manifest_that_is_not_found_yet_is_asked_for_again() -> None:
    model = S3Model(time.time)
    refused: list[str] = []

    def warming(request: Request) -> Answer:
        if request.method == "GET" and request.key == manifest_key(0, 1, 1) and len(refused) < 2:
            refused.append(request.key)
            return error("NoSuchKey", request.key)
        return model.answer(request)

    async def follow() -> int:
        blobs = RangedS3Blobs(ServiceSettings())
        await blobs.put(manifest_key(0, 1, 1), pack(ArchiveState(0, 1).next(cursor=7, at=1, writer="w")))
        catalog = ArchiveCatalog(blobs, 1)
        following = asyncio.create_task(catalog.follow(0.01))
        await eventually(lambda: following.done() or catalog.loaded)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        return catalog.chains[0].archive.cursor

    with answering(warming):
        assert asyncio.run(follow()) == 7
    assert len(refused) == 2
