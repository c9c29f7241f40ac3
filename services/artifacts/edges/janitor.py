"""Prunes by the rules, by hand, and takes prunes back."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import structlog

from runspine.artifact.commands import Doomed, Prune, Restore
from runspine.artifact.decide import holds, obstacle
from runspine.blobs import BlobsUnavailable
from runspine.ids import new_ulid
from runspine.log import Conflict, Corrupt, Unknown
from runspine.log.link import Unreachable
from runspine.retention import effective
from runspine.run import Refused
from runspine.wire.v1.artifacts_pb2 import KEPT, PRUNED, Artifact
from runspine.wire.v1.facts_pb2 import RetentionProfile
from services.artifacts.core.catalog import Catalog
from services.artifacts.core.retention import SECOND, Item, Plan, Planner, Wanted
from services.artifacts.core.standing import Standings
from services.artifacts.edges import metrics
from services.artifacts.edges.clerk import Clerk, wall_clock
from services.artifacts.edges.storekeeper import Storekeeper
from services.artifacts.edges.verifying import Verifying

log = structlog.get_logger()

# Facts of one commit: a message on the log has room for 1 MiB.
MOST_AT_ONCE = 500
BY_ITSELF = "janitor"
BY_HAND = "by hand"


@dataclass(slots=True)
class Pruned:
    """What came of a prune."""

    batch: str
    items: list[Item] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    freed: int = 0
    undo_until: int = 0


class Janitor:
    def __init__(
        self, catalog: Catalog, clerk: Clerk, storekeeper: Storekeeper, verifying: Verifying, every: float
    ) -> None:
        self._catalog = catalog
        self._clerk = clerk
        self._storekeeper = storekeeper
        self._verifying = verifying
        self._every = every
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Rounds for ever; one that fails is followed by the next."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await self._clerk.caught_up()
                plan = self._plan(lambda _, profile: profile.automatic)
                if plan.items:
                    pruned = await self.carry_out(plan, BY_ITSELF)
                    log.info("janitor.pruned", batch=pruned.batch, artifacts=len(pruned.items))
                await self._storekeeper.tidy()
            except (BlobsUnavailable, Conflict, Corrupt, Unknown, Unreachable) as error:
                log.warning("janitor.later", error=str(error))

    async def plan(self, run_id: str = "", project: str = "") -> Plan:
        """What a prune would do now."""
        await self._clerk.caught_up()
        return self._plan(lambda this, _: run_id in ("", this.run_id) and project in ("", this.project))

    def _plan(self, wanted: Wanted) -> Plan:
        return Planner(self._catalog, Standings(self._catalog), wall_clock()).plan(wanted)

    async def carry_out(self, plan: Plan, by: str) -> Pruned:
        """Run by run. What is pinned, or pruned by another, meanwhile is left alone."""
        done = Pruned(batch=new_ulid())
        runs: dict[str, list[Item]] = {}
        for item in plan.items:
            runs.setdefault(item.artifact.run_id, []).append(item)
        for run_id, items in runs.items():
            for start in range(0, len(items), MOST_AT_ONCE):
                await self._prune_run(done, run_id, items[start : start + MOST_AT_ONCE], by)
        planner = Planner(self._catalog, Standings(self._catalog), wall_clock())
        done.freed = planner.freed(done.items)
        self._asked.set()  # what was pruned is moved now, not in the next round
        metrics.PRUNED.inc(sum(item.artifact.size for item in done.items))
        return done

    async def _prune_run(self, done: Pruned, run_id: str, items: list[Item], by: str) -> None:
        at = wall_clock()
        undo_until = at + int(self._profile(run_id).undo_seconds * SECOND)
        doomed = tuple(_doomed(item) for item in items)
        try:
            handled = await self._clerk.command(run_id, Prune(at, doomed, done.batch, undo_until, by))
        except (Conflict, Corrupt, Unknown) as error:
            done.left.append(f"run {run_id}: {error}")
            return
        gone = {fact.artifact_pruned.digest for fact in handled.facts}
        done.undo_until = max(done.undo_until, undo_until)
        for item in items:
            if item.artifact.digest in gone:
                done.items.append(item)
            else:
                done.left.append(f"{item.artifact.name} of run {run_id} has changed meanwhile")

    async def prune_by_hand(self, artifact: Artifact, by: str) -> Pruned:
        """One artifact, whatever the rules say. Raises Refused when something holds it."""
        await self._clerk.caught_up()
        planner = Planner(self._catalog, Standings(self._catalog), wall_clock())
        why = holds(self._catalog.shelves[artifact.run_id], artifact) or planner.needed(artifact)
        if why:
            raise Refused(f"{artifact.name} ({artifact.digest[:12]}) stays: {why}")
        if artifact.keeping != KEPT:
            raise Refused(obstacle(artifact))
        return await self.carry_out(Plan([Item(artifact, BY_HAND, "")]), by)

    async def undo(self, artifacts: list[Artifact], by: str) -> tuple[list[Artifact], list[str]]:
        """Bring back what was pruned; what came back, and what did not and why."""
        lost = [obstacle(a) or f"{_what(a)} is not pruned" for a in artifacts if a.keeping != PRUNED]
        pruned = [a for a in artifacts if a.keeping == PRUNED]
        back = await self._storekeeper.bring_all_back({a.digest: a.key for a in pruned})
        lost += [f"{_what(a)}: its bytes are no longer in S3" for a in pruned if a.digest not in back]
        runs: dict[str, set[str]] = {}
        for artifact in pruned:
            if artifact.digest in back:
                runs.setdefault(artifact.run_id, set()).add(artifact.digest)
        for run_id, digests in runs.items():
            chosen = sorted(digests)
            for start in range(0, len(chosen), MOST_AT_ONCE):
                part = frozenset(chosen[start : start + MOST_AT_ONCE])
                await self._clerk.command(run_id, Restore(wall_clock(), part, by))
        flaws = await self._verifying.verify_all(back, "undo")
        restored = []
        for artifact in (a for a in pruned if a.digest in back):
            again = self._catalog.get(artifact.run_id, artifact.digest)
            if artifact.digest in flaws:
                lost.append(f"{_what(artifact)}: {flaws[artifact.digest]}")
            elif again is None or again.keeping != KEPT:
                lost.append(f"{_what(artifact)} was erased in this moment")
            else:
                restored.append(again)
        self._asked.set()  # the copies in the trash are not needed any more
        return restored, lost

    def pruned_in(self, batch: str) -> list[Artifact]:
        return [a for a in self._catalog.artifacts() if a.batch == batch and a.keeping == PRUNED]

    def _profile(self, run_id: str) -> RetentionProfile:
        known = self._catalog.runs.get(run_id)
        project = known.run.spec.project if known is not None else ""
        shelf = self._catalog.shelves.get(run_id)
        if shelf is not None and shelf.HasField("imported"):
            project = shelf.imported.project
        return effective(self._catalog.profiles, run_id, project)[0]


def _what(artifact: Artifact) -> str:
    return f"{artifact.name} of run {artifact.run_id}"


def _doomed(item: Item) -> Doomed:
    artifact = item.artifact
    return Doomed(artifact.digest, item.rule, item.scope, artifact.size, artifact.kind, artifact.name)
