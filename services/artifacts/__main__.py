"""Start the artifacts service: settings, adapters, loops."""

from __future__ import annotations

import sys

from prometheus_client import REGISTRY

from runspine.artifact_blobs import ArtifactS3Blobs
from runspine.grpc_server import refuse_open_doors, serving
from runspine.log.jetstream import JetStreamLog
from runspine.log.publisher import Publisher
from runspine.log.streams import wait_for_streams
from runspine.log.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.projection import Projector
from runspine.service import Health, open_link, run_service
from runspine.wire.v1.artifacts_pb2_grpc import add_ArtifactServiceServicer_to_server
from services.artifacts.assembly import Assembly
from services.artifacts.core.catalog import Catalog
from services.artifacts.edges.metrics import CatalogCollector
from services.artifacts.servicer import ArtifactServicer
from services.artifacts.settings import ArtifactsSettings

SERVICE = "runspine.wire.v1.ArtifactService"


async def serve(settings: ArtifactsSettings, health: Health) -> None:
    starting = ["reading the log"]
    health.add(lambda: "".join(starting))
    async with open_link("artifacts", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, ARTIFACTS, timeout=float("inf"))
        log = JetStreamLog(link, publisher)
        blobs = ArtifactS3Blobs(settings, settings.s3_public_endpoint)
        catalog = Catalog()
        projector = Projector(log, None if settings.ignore_snapshot else blobs, catalog)
        await projector.start()
        REGISTRY.register(CatalogCollector(catalog))
        parts = Assembly(settings, log, blobs, catalog, projector)
        health.add(lambda: parts.checker.trouble)
        servicer = ArtifactServicer(parts.desk)
        async with serving(settings, [SERVICE], lambda s: add_ArtifactServiceServicer_to_server(servicer, s)):
            starting.clear()
            await parts.run()


if __name__ == "__main__":
    chosen = ArtifactsSettings.from_environment()
    refuse_open_doors(chosen)
    sys.exit(run_service("artifacts", chosen, lambda health: serve(chosen, health)))
