"""The parts of the service put together, and the loops that keep it going."""

from __future__ import annotations

from runspine.artifact_blobs import ArtifactBlobs
from runspine.log import EventLog
from runspine.log.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.projection import Projector
from runspine.tasks import run_together
from services.artifacts.calls.desk import Desk
from services.artifacts.core.catalog import Catalog
from services.artifacts.edges.checker import Checker
from services.artifacts.edges.clerk import Clerk
from services.artifacts.edges.imports import Imports
from services.artifacts.edges.indexer import Indexer
from services.artifacts.edges.inventory import Inventory
from services.artifacts.edges.janitor import Janitor
from services.artifacts.edges.scrubber import Scrubber
from services.artifacts.edges.storekeeper import Storekeeper
from services.artifacts.edges.verifying import Verifying
from services.artifacts.settings import ArtifactsSettings


class Assembly:
    def __init__(
        self,
        settings: ArtifactsSettings,
        event_log: EventLog,
        blobs: ArtifactBlobs,
        catalog: Catalog,
        projector: Projector,
    ) -> None:
        self._settings = settings
        self._projector = projector
        clerk = Clerk(event_log, projector)
        storekeeper = Storekeeper(blobs, catalog, clerk)
        self.checker = Checker(blobs, storekeeper, settings.gone_seconds)
        verifying = Verifying(catalog, clerk, self.checker)
        self._indexer = Indexer(catalog, projector, clerk, self.checker, settings.index_parallel)
        speed, interval = settings.scrub_mib_per_second * (1 << 20), settings.scrub_hours * 3600
        self._scrubber = Scrubber(blobs, catalog, verifying, speed, interval)
        self._janitor = Janitor(catalog, clerk, storekeeper, verifying, settings.janitor_seconds)
        self._inventory = Inventory(
            blobs,
            catalog,
            clerk,
            storekeeper,
            grace=settings.orphan_grace_seconds,
            disk=settings.s3_sync_dir,
        )
        imports = Imports(blobs, clerk, settings.import_mib << 20)
        self.desk = Desk(
            catalog, blobs, clerk, verifying, self._janitor, imports, self._inventory, self._scrubber
        )

    async def run(self) -> None:
        """Until one of the loops fails."""
        projector, settings = self._projector, self._settings
        try:
            await run_together(
                projector.follow(RUNS),
                projector.follow(ATTEMPTS),
                projector.follow(ARTIFACTS),
                projector.keep_snapshots(settings.snapshot_commits, settings.snapshot_seconds),
                self._indexer.run(),
                self._scrubber.run(),
                self._janitor.run(),
                self._inventory.run(),
            )
        finally:
            await projector.snapshot()
