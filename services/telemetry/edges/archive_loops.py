"""Loops that maintain the archive: ingest, trimming, and following the other partitions."""

from __future__ import annotations

import asyncio

import structlog

from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsConnection
from runspine.service.process import Health
from runspine.services.telemetry.edges.compactor import Compactor
from runspine.services.telemetry.edges.ingest import Ingest
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.services.telemetry.edges.trimmer import Trimmer
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.tasks import run_together

log = structlog.get_logger()

FOLLOW_SECONDS = 2.0
RETRY_SECONDS = 0.5


async def run_archive(
    settings: TelemetrySettings, health: Health, link: NatsConnection,
    event_log: EventLog, blobs: RangedBlobs,
    catalog: ArchiveCatalog, store: SegmentStore,
) -> None:  # fmt: skip
    """Runs until cancelled. While S3 is unreachable, batches stay on the stream until it is full."""
    await _wait_for_archive(catalog)
    if not settings.ingest:
        await catalog.follow(FOLLOW_SECONDS)
        return
    chain = catalog.chains[settings.ingest_partition_index]
    compactor = Compactor(blobs, event_log, store, settings.ingest_grace_seconds)
    ingest = Ingest(link, event_log, chain, store, compactor, settings)
    health.add(lambda: ingest.trouble)
    await run_together(
        ingest.run(),
        catalog.follow(FOLLOW_SECONDS, except_for=[chain]),
        Trimmer(link, catalog, settings.ingest_trim_seconds).run(),
    )


async def _wait_for_archive(catalog: ArchiveCatalog) -> None:
    """Wait until the archive can be read. Raises PartitionCountError."""
    while True:
        try:
            await catalog.check_partitions()
        except BlobsUnavailableError as error:
            log.info("archive.waiting", error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return
