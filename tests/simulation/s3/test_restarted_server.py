"""An S3 server that has just started does not find what it has: no service ends because of it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from runspine.services.telemetry.core.manifest import ArchiveState, manifest_key, pack
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.settings import ServiceSettings
from runspine.storage.ranged_blobs import RangedS3Blobs
from tests.kit.waiting import eventually
from tests.simulation.s3.link import answering
from tests.simulation.s3.server import Answer, Request, S3Model, error


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
