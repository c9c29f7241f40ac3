"""Wires the parts of the artifacts service together and runs its loops."""

from __future__ import annotations

from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.services.artifacts.anchoring import anchor_writer
from runspine.services.artifacts.calls.context import CallContext
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.checker import ObjectChecker
from runspine.services.artifacts.edges.code_store import CodeStore
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.imports import Imports
from runspine.services.artifacts.edges.indexer import Indexer
from runspine.services.artifacts.edges.inventory import Inventory
from runspine.services.artifacts.edges.janitor import Janitor
from runspine.services.artifacts.edges.lease import JanitorLease
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.services.artifacts.edges.prune_undo import PruneUndo
from runspine.services.artifacts.edges.pruner import Pruner
from runspine.services.artifacts.edges.scrubber import ObjectScrubber
from runspine.services.artifacts.edges.upload_signer import UploadSigner
from runspine.services.artifacts.edges.verification import ObjectVerification
from runspine.services.artifacts.settings import ArtifactsSettings
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.tasks import run_together


class Assembly:
    """The parts of the artifacts service and its loops."""

    def __init__(
        self,
        settings: ArtifactsSettings,
        link: NatsConnection,
        event_log: EventLog,
        blobs: ArtifactBlobs,
        catalog: ArtifactCatalog,
        projector: Projector,
        lease: JanitorLease,
    ) -> None:
        self._settings = settings
        self._projector = projector
        self._lease = lease
        handler = CommandHandler(event_log, projector)
        store = ObjectStore(blobs, catalog, handler)
        self.checker = ObjectChecker(blobs, store, settings.gone_seconds)
        verification = ObjectVerification(catalog, handler, self.checker)
        self._indexer = Indexer(catalog, projector, handler, self.checker, settings.index_parallel)
        speed, interval = settings.scrub_mib_per_second * (1 << 20), settings.scrub_hours * 3600
        self._scrubber = ObjectScrubber(blobs, catalog, verification, speed, interval)
        pruner = Pruner(catalog, handler)
        self._janitor = Janitor(catalog, projector, pruner, store, lease, settings.janitor_seconds)
        self._anchors = anchor_writer(settings, event_log, lease)
        code = CodeStore(blobs, catalog, settings.orphan_grace_seconds)
        self._inventory = Inventory(
            blobs,
            catalog,
            handler,
            store,
            code,
            grace=settings.orphan_grace_seconds,
            disk=settings.s3_sync_dir,
        )
        imports = Imports(blobs, handler, settings.import_mib << 20)
        undo = PruneUndo(catalog, handler, store, verification)
        self._signer = UploadSigner(link, catalog, blobs)
        self.context = CallContext(
            catalog,
            blobs,
            handler,
            verification,
            pruner,
            undo,
            imports,
            self._inventory,
            self._scrubber,
            code,
        )

    async def run(self) -> None:
        """Run until one of the loops fails."""
        projector, settings = self._projector, self._settings
        inside = (
            (self._lease.run(), self._janitor.run(), self._anchors.run())
            if settings.janitor == "inside"
            else ()
        )
        try:
            await run_together(
                projector.follow(RUNS),
                projector.follow(ATTEMPTS),
                projector.follow(ARTIFACTS),
                projector.keep_snapshots(settings.snapshot_commits, settings.snapshot_seconds),
                self._indexer.run(),
                self._scrubber.run(),
                self._inventory.run(),
                self._signer.run(),
                *inside,
            )
        finally:
            await self._lease.resign()
            await projector.snapshot()
