"""Prunes artifacts: plans by the rules, and carries a plan out run by run."""

from __future__ import annotations

from dataclasses import dataclass, field

from runspine.clock import now_micros
from runspine.domain.artifact.commands import Prune, PruneTarget
from runspine.domain.artifact.decide import hold_reason, obstacle
from runspine.domain.retention import effective
from runspine.domain.run import RunRefusedError
from runspine.eventlog import ConflictError, CorruptError, UnknownOutcomeError
from runspine.ids import new_ulid
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking
from runspine.services.artifacts.core.retention import SECOND, PlannedPrune, Planner, PrunePlan, Wanted
from runspine.services.artifacts.edges import pruning_metrics as metrics
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.lease import HeldTerm
from runspine.wire.v1.artifacts_pb2 import KEPT, Artifact
from runspine.wire.v1.facts_pb2 import RetentionProfile

# Facts of one commit: a message on the log holds at most 1 MiB.
MAX_FACTS = 500
BY_HAND = "by hand"


@dataclass(slots=True)
class PruneResult:
    """The result of a prune."""

    batch: str
    items: list[PlannedPrune] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    freed: int = 0
    undo_until: int = 0


class Pruner:
    """Prunes by the rules or on request. The objects of what was pruned are moved by the janitor."""

    def __init__(self, catalog: ArtifactCatalog, handler: CommandHandler) -> None:
        self._catalog = catalog
        self._handler = handler

    async def plan(self, run_id: str = "", project: str = "") -> PrunePlan:
        """The plan of a prune now."""
        return await self._plan(lambda this, _: run_id in ("", this.run_id) and project in ("", this.project))

    async def plan_automatic(self) -> PrunePlan:
        """The plan for runs whose rules let the janitor prune by itself."""
        return await self._plan(lambda _, profile: profile.automatic)

    async def _plan(self, wanted: Wanted) -> PrunePlan:
        await self._handler.catch_up()
        return Planner(self._catalog, Ranking(self._catalog), now_micros()).plan(wanted)

    async def carry_out(self, plan: PrunePlan, by: str, term: HeldTerm | None = None) -> PruneResult:
        """Prune run by run. Artifacts that were pinned or pruned meanwhile are left.

        With a term, every fact is fenced by it: raises DeposedError when it is over.
        """
        done = PruneResult(batch=new_ulid())
        runs: dict[str, list[PlannedPrune]] = {}
        for item in plan.items:
            runs.setdefault(item.artifact.run_id, []).append(item)
        try:
            for run_id, items in runs.items():
                for start in range(0, len(items), MAX_FACTS):
                    await self._prune_run(done, run_id, items[start : start + MAX_FACTS], by, term)
        finally:
            metrics.PRUNED.inc(sum(item.artifact.size for item in done.items))
        planner = Planner(self._catalog, Ranking(self._catalog), now_micros())
        done.freed = planner.freed(done.items)
        return done

    async def _prune_run(
        self, done: PruneResult, run_id: str, items: list[PlannedPrune], by: str, term: HeldTerm | None
    ) -> None:
        at = now_micros()
        undo_until = at + int(self._profile(run_id).undo_seconds * SECOND)
        targets = tuple(_target(item) for item in items)
        command = Prune(at, targets, done.batch, undo_until, by, term.number if term else 0)
        try:
            handled = await self._handler.command(run_id, command, term.fence if term else None)
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

    def _profile(self, run_id: str) -> RetentionProfile:
        known = self._catalog.runs.get(run_id)
        project = known.run.spec.project if known is not None else ""
        entry = self._catalog.run_artifacts.get(run_id)
        if entry is not None and entry.HasField("imported"):
            project = entry.imported.project
        return effective(self._catalog.profiles, run_id, project)[0]


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
