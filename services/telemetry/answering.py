"""Everything that answers questions: readers of stream and archive, with gRPC in front of them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from runspine.grpc_server import serving
from runspine.log import EventLog
from runspine.log.link import Link
from runspine.ranged_blobs import RangedBlobs
from runspine.wire.v1.telemetry_pb2_grpc import add_TelemetryServiceServicer_to_server
from services.telemetry.edges.batches import BatchReader
from services.telemetry.edges.chain import Catalog
from services.telemetry.edges.log_search import LogSearch
from services.telemetry.edges.queries import Queries
from services.telemetry.edges.runs import Runs
from services.telemetry.edges.segment_store import SegmentStore
from services.telemetry.edges.sql import Sql
from services.telemetry.edges.views import Views
from services.telemetry.servicer import TelemetryServicer
from services.telemetry.settings import TelemetrySettings

SERVICE = "runspine.wire.v1.TelemetryService"


@asynccontextmanager
async def answering(
    settings: TelemetrySettings, link: Link, event_log: EventLog, blobs: RangedBlobs, catalog: Catalog,
    store: SegmentStore,
) -> AsyncIterator[None]:  # fmt: skip
    """For as long as the block takes."""
    runs = Runs(event_log)
    batches = BatchReader(link, event_log, catalog, store, runs)
    views = Views(batches, runs)
    with tempfile.TemporaryDirectory(prefix="runspine-sql-") as folder:
        sql = Sql(
            views,
            blobs,
            Path(folder),
            settings.sql_disk_mib << 20,
            settings.sql_memory_mib,
            settings.sql_seconds,
        )
        servicer = TelemetryServicer(
            batches, Queries(views, store), LogSearch(batches), sql, settings.follow_mib << 20
        )
        async with serving(
            settings, [SERVICE], lambda server: add_TelemetryServiceServicer_to_server(servicer, server)
        ):
            yield
