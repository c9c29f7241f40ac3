"""Start the artifacts service: settings, adapters, gRPC server, loops."""

from __future__ import annotations

import sys

from prometheus_client import REGISTRY

from runspine.audit.trail import writing
from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.rpc.server import check_listener, serving
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.artifacts.assembly import Assembly
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.lease import JanitorLease
from runspine.services.artifacts.edges.metrics import CatalogCollector
from runspine.services.artifacts.servicer import ArtifactServicer
from runspine.services.artifacts.settings import ArtifactsSettings
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.wire.v1.artifacts_pb2_grpc import add_ArtifactServiceServicer_to_server

SERVICE = "runspine.wire.v1.ArtifactService"


async def serve(settings: ArtifactsSettings, health: Health) -> None:
    starting = ["reading the log"]
    health.add(lambda: "".join(starting))
    async with open_link("artifacts", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, ARTIFACTS, timeout=float("inf"))
        log = open_log(link, publisher, settings)
        blobs = ArtifactS3Blobs(settings, settings.s3_public_endpoint)
        catalog = ArtifactCatalog()
        projector = Projector(log, None if settings.ignore_snapshot else blobs, catalog)
        await projector.start()
        REGISTRY.register(CatalogCollector(catalog))
        lease = JanitorLease(link, log, catalog, projector, settings.janitor_lease_seconds)
        parts = Assembly(settings, link, log, blobs, catalog, projector, lease)
        health.add(lambda: parts.checker.trouble)
        servicer = ArtifactServicer(parts.context)
        async with (
            writing("artifacts", log) as audit,
            serving(settings, [SERVICE], lambda s: add_ArtifactServiceServicer_to_server(servicer, s), audit),
        ):
            starting.clear()
            await parts.run()


if __name__ == "__main__":
    chosen = ArtifactsSettings.from_environment()
    check_listener(chosen)
    sys.exit(run_service("artifacts", chosen, lambda health: serve(chosen, health)))
