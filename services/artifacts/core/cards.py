"""Checkpoint cards: what can be loaded, how well it does, and where it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.artifact import LOADABLE
from runspine.artifact.decide import obstacle
from runspine.wire.v1.artifacts_pb2 import (
    KEPT,
    NEWEST_FIRST,
    Artifact,
    CheckpointCard,
    ListCheckpointsRequest,
    RunnerFit,
)
from runspine.wire.v1.facts_pb2 import ResumedFrom
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE
from services.artifacts.core.catalog import Catalog
from services.artifacts.core.standing import Standings, score


def card(catalog: Catalog, standings: Standings, artifact: Artifact) -> CheckpointCard:
    this = standings.about[artifact.run_id]
    return CheckpointCard(
        artifact=artifact,
        run_name=this.name,
        project=this.project,
        env=this.env,
        algo=this.algo,
        runner=this.runner,
        seed=this.seed,
        score=score(catalog, artifact, this.env),
        aliases=standings.aliases(artifact),
        parent=_parent(catalog, artifact),
        runners=_fits(catalog, this.runner),
        phase=this.phase,
        obstacle=obstacle(artifact),
        source=this.source,
    )


def select(
    catalog: Catalog, standings: Standings, request: ListCheckpointsRequest, run_id: str
) -> list[Artifact]:
    """What is asked for, in the order asked for."""
    shelves = [catalog.shelves[run_id]] if run_id else list(catalog.shelves.values())
    found = [
        artifact
        for shelf in shelves
        if _wanted(standings, shelf.run_id, request)
        for artifact in shelf.artifacts.values()
        if artifact.kind in LOADABLE and (request.with_pruned or artifact.keeping == KEPT)
    ]
    if not request.all and not run_id:
        found = [artifact for artifact in found if _stands_out(standings, artifact)]
    return order(catalog, standings, found, newest_first=request.order == NEWEST_FIRST)


def order(
    catalog: Catalog, standings: Standings, artifacts: Iterable[Artifact], *, newest_first: bool
) -> list[Artifact]:
    """Grouped by env and algorithm; in each group the best, or the newest, first."""

    def key(artifact: Artifact) -> tuple[object, ...]:
        this = standings.about[artifact.run_id]
        found = score(catalog, artifact, this.env)
        worth = -found.mean if found is not None and not newest_first else float("inf")
        return (this.env, this.algo, worth, -artifact.produced_at, artifact.run_id, artifact.digest)

    return sorted(artifacts, key=key)


def _wanted(standings: Standings, run_id: str, request: ListCheckpointsRequest) -> bool:
    this = standings.about[run_id]
    return (
        request.env in ("", this.env)
        and request.algo in ("", this.algo)
        and request.project in ("", this.project)
    )


def _stands_out(standings: Standings, artifact: Artifact) -> bool:
    """Best, latest, named by a person, or in trouble: the rest is for who asks for it."""
    return bool(standings.aliases(artifact) or artifact.pinned or artifact.actors or obstacle(artifact))


def _parent(catalog: Catalog, artifact: Artifact) -> ResumedFrom | None:
    known = catalog.runs.get(artifact.run_id)
    if known is None or artifact.attempt not in known.starts:
        return None
    return known.starts[artifact.attempt]


def _fits(catalog: Catalog, runner: str) -> list[RunnerFit]:
    info = catalog.runners.get(runner)
    if info is None:
        return [RunnerFit(runner=runner)] if runner else []
    return [RunnerFit(runner=runner, uses=_uses(info))]


def _uses(info: RunnerInfo) -> list[str]:
    said = (
        (info.resumes, "resume"),
        (info.warm_starts, "warm start"),
        (EVALUATE in info.modes, "evaluate"),
    )
    return [use for able, use in said if able]
