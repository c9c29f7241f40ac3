"""Start the telemetry service: settings, adapters, ingest, gRPC."""

from __future__ import annotations

import sys

from runspine.grpc_server import refuse_open_doors
from runspine.log.jetstream import JetStreamLog
from runspine.log.publisher import Publisher
from runspine.log.streams import wait_for_streams
from runspine.log.subjects import ATTEMPTS, RUNS, TELEMETRY
from runspine.ranged_blobs import RangedS3Blobs
from runspine.service import Health, open_link, run_service
from services.telemetry.answering import answering
from services.telemetry.edges.archiving import archiving
from services.telemetry.edges.chain import Catalog
from services.telemetry.edges.segment_store import SegmentStore
from services.telemetry.settings import TelemetrySettings

# While a thread makes segments, whoever streams steps waits for a turn of the interpreter, several times
# for an answer. With Python's own 5 ms the slowest answers took longer; see docs/benchmarks.md.
TURN_SECONDS = 0.0005


async def serve(settings: TelemetrySettings, health: Health) -> None:
    starting = ["waiting for the streams"]
    health.add(lambda: "".join(starting))
    async with open_link("telemetry", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, TELEMETRY, timeout=float("inf"))
        event_log = JetStreamLog(link, publisher)
        blobs = RangedS3Blobs(settings)
        catalog = Catalog(blobs, settings.ingest_partitions)
        store = SegmentStore(blobs, settings.cache_mib << 20)
        async with answering(settings, link, event_log, blobs, catalog, store):
            starting.clear()
            await archiving(settings, health, link, event_log, blobs, catalog, store)


if __name__ == "__main__":
    chosen = TelemetrySettings.from_environment()
    refuse_open_doors(chosen)
    sys.setswitchinterval(TURN_SECONDS)
    sys.exit(run_service("telemetry", chosen, lambda health: serve(chosen, health)))
