"""The gRPC server of TelemetryService with its readers of stream and archive."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from runspine.audit.trail import writing
from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsConnection
from runspine.rpc.server import serving
from runspine.services.telemetry.edges.batches import BatchReader
from runspine.services.telemetry.edges.cross_run_sql import CrossRunSql
from runspine.services.telemetry.edges.fair_slots import FairSlots
from runspine.services.telemetry.edges.log_lines import LogReader
from runspine.services.telemetry.edges.log_ranges import LogRanges
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.services.telemetry.edges.points import PointReader
from runspine.services.telemetry.edges.queries import QueryRunner
from runspine.services.telemetry.edges.run_lookup import RunLookup
from runspine.services.telemetry.edges.run_views import RunViews
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.services.telemetry.edges.sql import SqlRunner
from runspine.services.telemetry.servicer import TelemetryServicer
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.wire.v1.telemetry_pb2_grpc import add_TelemetryServiceServicer_to_server

SERVICE = "runspine.wire.v1.TelemetryService"


@asynccontextmanager
async def serve_queries(
    settings: TelemetrySettings, link: NatsConnection, event_log: EventLog,
    blobs: RangedBlobs, catalog: ArchiveCatalog,
    store: SegmentStore,
) -> AsyncIterator[None]:  # fmt: skip
    """Serve gRPC for the duration of the block."""
    runs = RunLookup(event_log)
    batches = BatchReader(link, event_log, catalog, store, runs)
    views = RunViews(batches, runs)
    with tempfile.TemporaryDirectory(prefix="runspine-sql-") as folder:
        sql = SqlRunner(
            views,
            blobs,
            Path(folder),
            settings.sql_disk_mib << 20,
            settings.sql_memory_mib,
            settings.sql_seconds,
            FairSlots(settings.sql_slots, settings.sql_waiting),
        )
        servicer = TelemetryServicer(
            batches,
            QueryRunner(views, store),
            LogReader(batches),
            LogRanges(views, store),
            sql,
            CrossRunSql(sql, views, runs, settings.sql_seconds),
            PointReader(views, store),
            settings.follow_mib << 20,
        )
        async with (
            writing("telemetry", event_log) as audit,
            serving(
                settings, [SERVICE], lambda s: add_TelemetryServiceServicer_to_server(servicer, s), audit
            ),
        ):
            yield
