"""Start the telemetry service: settings, adapters, gRPC server, ingest."""

from __future__ import annotations

import sys

from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ATTEMPTS, RUNS, TELEMETRY
from runspine.rpc.server import check_listener
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.telemetry.edges.archive_loops import run_archive
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.services.telemetry.query_server import serve_queries
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage.ranged_blobs import RangedS3Blobs

# While a thread makes segments, a stream of steps waits for the interpreter several times per answer.
# Python's default of 5 ms makes the slowest answers slower; see docs/benchmarks.md.
SWITCH_SECONDS = 0.0005


async def serve(settings: TelemetrySettings, health: Health) -> None:
    starting = ["waiting for the streams"]
    health.add(lambda: "".join(starting))
    async with open_link("telemetry", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, TELEMETRY, timeout=float("inf"))
        event_log = open_log(link, publisher, settings)
        blobs = RangedS3Blobs(settings)
        catalog = ArchiveCatalog(blobs, settings.ingest_partitions)
        store = SegmentStore(blobs, settings.cache_mib << 20)
        async with serve_queries(settings, link, event_log, blobs, catalog, store):
            starting.clear()
            await run_archive(settings, health, link, event_log, blobs, catalog, store)


if __name__ == "__main__":
    chosen = TelemetrySettings.from_environment()
    check_listener(chosen)
    sys.setswitchinterval(SWITCH_SECONDS)
    sys.exit(run_service("telemetry", chosen, lambda health: serve(chosen, health)))
