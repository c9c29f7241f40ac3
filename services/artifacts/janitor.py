"""Start the janitor apart from the artifacts service: `runspine serve janitor`.

It follows the log as the artifacts service does, starts from that service's snapshot, and stores none.
"""

from __future__ import annotations

import sys

from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.artifacts.anchoring import anchor_writer
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.janitor import Janitor
from runspine.services.artifacts.edges.lease import JanitorLease
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.services.artifacts.edges.pruner import Pruner
from runspine.services.artifacts.settings import JanitorSettings
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.tasks import run_together


async def serve(settings: JanitorSettings, health: Health) -> None:
    starting = ["reading the log"]
    health.add(lambda: "".join(starting))
    async with open_link("janitor", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, ARTIFACTS, timeout=float("inf"))
        log = open_log(link, publisher, settings)
        blobs = ArtifactS3Blobs(settings)
        catalog = ArtifactCatalog()
        projector = Projector(log, None if settings.ignore_snapshot else blobs, catalog)
        await projector.start()
        handler = CommandHandler(log, projector)
        lease = JanitorLease(link, log, catalog, projector, settings.janitor_lease_seconds)
        store = ObjectStore(blobs, catalog, handler)
        pruner = Pruner(catalog, handler)
        janitor = Janitor(catalog, projector, pruner, store, lease, settings.janitor_seconds)
        starting.clear()
        try:
            await run_together(
                *(projector.follow(stream) for stream in (RUNS, ATTEMPTS, ARTIFACTS)),
                lease.run(),
                janitor.run(),
                anchor_writer(settings, log, lease).run(),
            )
        finally:
            await lease.resign()


if __name__ == "__main__":
    chosen = JanitorSettings.from_environment()
    sys.exit(run_service("janitor", chosen, lambda health: serve(chosen, health)))
