"""Everything that keeps the archive: ingest, trimming, and an eye on other partitions."""

from __future__ import annotations

import asyncio

import structlog

from runspine.blobs import BlobsUnavailable
from runspine.log import EventLog
from runspine.log.link import Link
from runspine.ranged_blobs import RangedBlobs
from runspine.service import Health
from runspine.tasks import run_together
from services.telemetry.edges.chain import Catalog
from services.telemetry.edges.compactor import Compactor
from services.telemetry.edges.ingest import Ingest
from services.telemetry.edges.segment_store import SegmentStore
from services.telemetry.edges.trimmer import Trimmer
from services.telemetry.settings import TelemetrySettings

log = structlog.get_logger()

FOLLOW_SECONDS = 2.0
AGAIN_SECONDS = 0.5


async def archiving(
    settings: TelemetrySettings, health: Health, link: Link, event_log: EventLog, blobs: RangedBlobs,
    catalog: Catalog, store: SegmentStore,
) -> None:  # fmt: skip
    """For ever. Without S3 nothing is archived; the stream holds what comes until it is full."""
    await _first_look(catalog)
    if not settings.ingest:
        await catalog.follow(FOLLOW_SECONDS)
        return
    chain = catalog.chains[settings.ingest_partition_index]
    compactor = Compactor(blobs, event_log, store, settings.ingest_grace_seconds)
    ingest = Ingest(link, event_log, chain, store, compactor, settings)
    health.add(lambda: ingest.trouble)
    await run_together(
        ingest.run(),
        catalog.follow(FOLLOW_SECONDS, but=[chain]),
        Trimmer(link, catalog, settings.ingest_trim_seconds).run(),
    )


async def _first_look(catalog: Catalog) -> None:
    """Until the archive can be read. Raises OtherPartitions."""
    while True:
        try:
            await catalog.check_partitions()
        except BlobsUnavailable as error:
            log.info("archive.waiting", error=str(error))
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
