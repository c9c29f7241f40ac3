"""Prunes artifacts by the rules or on request, and undoes prunes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import structlog

from runspine.clock import now_micros
from runspine.domain.artifact.commands import Prune, PruneTarget, Restore
from runspine.domain.artifact.decide import hold_reason, obstacle
from runspine.domain.retention import effective
from runspine.domain.run import RunRefusedError
from runspine.eventlog import ConflictError, CorruptError, UnknownOutcomeError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.ids import new_ulid
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking
from runspine.services.artifacts.core.retention import SECOND, PlannedPrune, Planner, PrunePlan, Wanted
from runspine.services.artifacts.edges import metrics
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.services.artifacts.edges.verification import ObjectVerification
from runspine.storage.blobs import BlobsUnavailableError
from runspine.wire.v1.artifacts_pb2 import KEPT, PRUNED, Artifact
from runspine.wire.v1.facts_pb2 import RetentionProfile

log = structlog.get_logger()

# Facts of one commit: a message on the log holds at most 1 MiB.
MAX_FACTS = 500
BY_ITSELF = "janitor"
BY_HAND = "by hand"


@dataclass(slots=True)
class PruneResult:
    """The result of a prune."""

    batch: str
    items: list[PlannedPrune] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    freed: int = 0
    undo_until: int = 0


class Janitor:
    """Prunes periodically by the rules and on request."""

    def __init__(
        self,
        catalog: ArtifactCatalog,
        handler: CommandHandler,
        store: ObjectStore,
        verification: ObjectVerification,
        seconds: float,
    ) -> None:
        self._catalog = catalog
        self._handler = handler
        self._store = store
        self._verification = verification
        self._seconds = seconds
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled, one round at a time; a failed round is retried in the next."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._handler.catch_up()
                plan = self._plan(lambda _, profile: profile.automatic)
                if plan.items:
                    pruned = await self.carry_out(plan, BY_ITSELF)
                    log.info("janitor.pruned", batch=pruned.batch, artifacts=len(pruned.items))
                await self._store.clean_up()
            except (
                BlobsUnavailableError,
                ConflictError,
                CorruptError,
                UnknownOutcomeError,
                NatsUnreachableError,
            ) as error:
                log.warning("janitor.later", error=str(error))

    async def plan(self, run_id: str = "", project: str = "") -> PrunePlan:
        """The plan of a prune now."""
        await self._handler.catch_up()
        return self._plan(lambda this, _: run_id in ("", this.run_id) and project in ("", this.project))

    def _plan(self, wanted: Wanted) -> PrunePlan:
        return Planner(self._catalog, Ranking(self._catalog), now_micros()).plan(wanted)

    async def carry_out(self, plan: PrunePlan, by: str) -> PruneResult:
        """Prune run by run. Artifacts that were pinned or pruned meanwhile are left."""
        done = PruneResult(batch=new_ulid())
        runs: dict[str, list[PlannedPrune]] = {}
        for item in plan.items:
            runs.setdefault(item.artifact.run_id, []).append(item)
        for run_id, items in runs.items():
            for start in range(0, len(items), MAX_FACTS):
                await self._prune_run(done, run_id, items[start : start + MAX_FACTS], by)
        planner = Planner(self._catalog, Ranking(self._catalog), now_micros())
        done.freed = planner.freed(done.items)
        self._wake.set()  # move pruned objects now, not in the next round
        metrics.PRUNED.inc(sum(item.artifact.size for item in done.items))
        return done

    async def _prune_run(self, done: PruneResult, run_id: str, items: list[PlannedPrune], by: str) -> None:
        at = now_micros()
        undo_until = at + int(self._profile(run_id).undo_seconds * SECOND)
        targets = tuple(_target(item) for item in items)
        try:
            handled = await self._handler.command(run_id, Prune(at, targets, done.batch, undo_until, by))
        except (ConflictError, CorruptError, UnknownOutcomeError) as error:
            done.left.append(f"run {run_id}: {error}")
            return
        gone = {fact.artifact_pruned.digest for fact in handled.facts if fact.HasField("artifact_pruned")}
        done.undo_until = max(done.undo_until, undo_until)
        for item in items:
            if item.artifact.digest in gone:
                done.items.append(item)
            else:
                done.left.append(f"{item.artifact.name} of run {run_id} has changed meanwhile")

    async def prune_by_hand(self, artifact: Artifact, by: str, *, with_aliases: bool = False) -> PruneResult:
        """Prune one artifact regardless of the rules, and of its aliases when those are removed as well.

        Raises RunRefusedError when it must stay.
        """
        await self._handler.catch_up()
        planner = Planner(self._catalog, Ranking(self._catalog), now_micros())
        entry = self._catalog.run_artifacts[artifact.run_id]
        why = hold_reason(entry, artifact, with_aliases=with_aliases) or planner.needed(artifact)
        if why:
            raise RunRefusedError(f"{artifact.name} ({artifact.digest[:12]}) stays: {why}")
        if artifact.keeping != KEPT:
            raise RunRefusedError(obstacle(artifact))
        item = PlannedPrune(artifact, BY_HAND, "", with_aliases=with_aliases)
        return await self.carry_out(PrunePlan([item]), by)

    async def undo(self, artifacts: list[Artifact], by: str) -> tuple[list[Artifact], list[str]]:
        """Restore pruned artifacts; those restored, and for each of the others the reason."""
        lost = [obstacle(a) or f"{_what(a)} is not pruned" for a in artifacts if a.keeping != PRUNED]
        pruned = [a for a in artifacts if a.keeping == PRUNED]
        back = await self._store.restore_all({a.digest: a.key for a in pruned})
        lost += [f"{_what(a)}: its bytes are no longer in S3" for a in pruned if a.digest not in back]
        runs: dict[str, set[str]] = {}
        for artifact in pruned:
            if artifact.digest in back:
                runs.setdefault(artifact.run_id, set()).add(artifact.digest)
        for run_id, digests in runs.items():
            chosen = sorted(digests)
            for start in range(0, len(chosen), MAX_FACTS):
                part = frozenset(chosen[start : start + MAX_FACTS])
                await self._handler.command(run_id, Restore(now_micros(), part, by, self._taken(pruned)))
        problems = await self._verification.verify_all(back, "undo")
        restored = []
        for artifact in (a for a in pruned if a.digest in back):
            again = self._catalog.get(artifact.run_id, artifact.digest)
            if artifact.digest in problems:
                lost.append(f"{_what(artifact)}: {problems[artifact.digest]}")
            elif again is None or again.keeping != KEPT:
                lost.append(f"{_what(artifact)} was erased meanwhile")
            else:
                restored.append(again)
        self._wake.set()  # remove the copies in the trash
        return restored, lost

    def _taken(self, artifacts: list[Artifact]) -> frozenset[str]:
        """Aliases of pruned artifacts that name something else by now."""
        return frozenset(
            alias for each in artifacts for alias in each.pruned_aliases if alias in self._catalog.aliases
        )

    def pruned_in(self, batch: str) -> list[Artifact]:
        return [a for a in self._catalog.artifacts() if a.batch == batch and a.keeping == PRUNED]

    def _profile(self, run_id: str) -> RetentionProfile:
        known = self._catalog.runs.get(run_id)
        project = known.run.spec.project if known is not None else ""
        entry = self._catalog.run_artifacts.get(run_id)
        if entry is not None and entry.HasField("imported"):
            project = entry.imported.project
        return effective(self._catalog.profiles, run_id, project)[0]


def _what(artifact: Artifact) -> str:
    return f"{artifact.name} of run {artifact.run_id}"


def _target(item: PlannedPrune) -> PruneTarget:
    artifact = item.artifact
    return PruneTarget(
        artifact.digest,
        item.rule,
        item.scope,
        artifact.size,
        artifact.kind,
        artifact.name,
        item.with_aliases,
    )
