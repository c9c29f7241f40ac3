"""Prunes by the rules and moves pruned objects, while this process holds the janitor's term."""

from __future__ import annotations

import time

import structlog

from runspine.domain.janitor import DeposedError
from runspine.eventlog import ConflictError, CorruptError, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.projection import Projector
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges import pruning_metrics as metrics
from runspine.services.artifacts.edges.lease import HeldTerm, JanitorLease
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.services.artifacts.edges.pruner import Pruner
from runspine.storage.blobs import BlobsUnavailableError

log = structlog.get_logger()

BY_ITSELF = "janitor"
# Pause between two rounds while prunes and undos follow each other.
SETTLE_SECONDS = 0.5


class Janitor:
    """Works a round every `seconds`, and soon after a prune or an undo of any process."""

    def __init__(
        self,
        catalog: ArtifactCatalog,
        projector: Projector,
        pruner: Pruner,
        store: ObjectStore,
        lease: JanitorLease,
        seconds: float,
    ) -> None:
        self._catalog = catalog
        self._projector = projector
        self._pruner = pruner
        self._store = store
        self._lease = lease
        self._seconds = seconds

    async def run(self) -> None:
        """Runs until cancelled, one round at a time; a failed round is retried in the next."""
        worked = time.monotonic()
        seen = self._catalog.prunes
        async for _ in self._projector.moves(min(SETTLE_SECONDS, self._seconds)):
            changed = self._catalog.prunes != seen
            pause = min(self._seconds, SETTLE_SECONDS) if changed else self._seconds
            term = self._lease.held()
            if term is None or time.monotonic() < worked + pause:
                continue
            seen = self._catalog.prunes
            metrics.ROUNDS.labels(await self._round(term)).inc()
            worked = time.monotonic()

    async def _round(self, term: HeldTerm) -> str:
        try:
            plan = await self._pruner.plan_automatic()
            if plan.items:
                pruned = await self._pruner.carry_out(plan, BY_ITSELF, term)
                log.info("janitor.pruned", batch=pruned.batch, artifacts=len(pruned.items), term=term.number)
            await self._store.clean_up(term)
        except DeposedError as error:
            log.warning("janitor.deposed", error=str(error))
            return "deposed"
        except (
            BlobsUnavailableError,
            ConflictError,
            CorruptError,
            UnknownOutcomeError,
            NatsUnreachableError,
        ) as error:
            log.warning("janitor.later", error=str(error))
            return "failed"
        return "done"
