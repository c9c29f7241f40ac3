"""Checkpoint cards: score, origin and possible uses of each checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.domain.artifact.decide import obstacle
from runspine.domain.artifact_kinds import LOADABLE
from runspine.domain.dataset_tag import tagged_dataset
from runspine.domain.runner_abilities import can_warm_start
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking, score
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
from runspine.wire.v1.spec_pb2 import EVALUATE, Dataset

MIN_DIGEST_PREFIX = 6


def card(catalog: ArtifactCatalog, ranking: Ranking, artifact: Artifact) -> CheckpointCard:
    this = ranking.sources[artifact.run_id]
    return CheckpointCard(
        artifact=artifact,
        run_name=this.name,
        project=this.project,
        env=this.env,
        algo=this.algo,
        runner=this.runner,
        seed=this.seed,
        score=score(catalog, artifact, this.env),
        aliases=ranking.aliases(artifact),
        parent=_parent(catalog, artifact),
        runners=_fits(catalog, this.runner, this.algo),
        phase=this.phase,
        obstacle=obstacle(artifact),
        source=this.source,
        dataset=learned_from(catalog, artifact),
    )


def select(
    catalog: ArtifactCatalog, ranking: Ranking, request: ListCheckpointsRequest, run_id: str
) -> list[Artifact]:
    """The requested checkpoints in the requested order."""
    run_artifacts = [catalog.run_artifacts[run_id]] if run_id else list(catalog.run_artifacts.values())
    found = [
        artifact
        for entry in run_artifacts
        if _matches(ranking, entry.run_id, request)
        for artifact in entry.artifacts.values()
        if artifact.kind in LOADABLE
        and (request.with_pruned or artifact.keeping == KEPT)
        and _is_of_dataset(catalog, artifact, request.dataset)
    ]
    if not request.all and not run_id:
        found = [artifact for artifact in found if _stands_out(ranking, artifact)]
    return order(catalog, ranking, found, newest_first=request.order == NEWEST_FIRST)


def order(
    catalog: ArtifactCatalog, ranking: Ranking, artifacts: Iterable[Artifact], *, newest_first: bool
) -> list[Artifact]:
    """Grouped by env and algorithm; in each group the best, or the newest, first."""

    def key(artifact: Artifact) -> tuple[object, ...]:
        this = ranking.sources[artifact.run_id]
        found = score(catalog, artifact, this.env)
        worth = -found.mean if found is not None and not newest_first else float("inf")
        return (this.env, this.algo, worth, -artifact.produced_at, artifact.run_id, artifact.digest)

    return sorted(artifacts, key=key)


def _matches(ranking: Ranking, run_id: str, request: ListCheckpointsRequest) -> bool:
    this = ranking.sources[run_id]
    return not this.uses_policies and (
        request.env in ("", this.env)
        and request.algo in ("", this.algo)
        and request.project in ("", this.project)
    )


def learned_from(catalog: ArtifactCatalog, artifact: Artifact) -> Dataset | None:
    """The dataset of a checkpoint: as tagged, or as its run's spec states for those of earlier releases."""
    if (tagged := tagged_dataset(artifact.meta)) is not None:
        return tagged
    known = catalog.runs.get(artifact.run_id)
    return known.run.spec.dataset if known is not None and known.run.spec.dataset.digest else None


def _is_of_dataset(catalog: ArtifactCatalog, artifact: Artifact, wanted: str) -> bool:
    """Whether a checkpoint learned from the dataset with this name or beginning of a digest.

    A name stands for what it names now, or for what it named when the run was submitted.
    """
    if not wanted:
        return True
    found = learned_from(catalog, artifact)
    if found is None:
        return False
    current = catalog.aliases.get(wanted, ("", ""))[1]
    prefix = len(wanted) >= MIN_DIGEST_PREFIX and found.digest.startswith(wanted)
    return found.name == wanted or found.digest == current or prefix


def _stands_out(ranking: Ranking, artifact: Artifact) -> bool:
    """Whether a checkpoint is best, latest, named, pinned, used by an actor or unusable; others are listed
    on request."""
    return bool(ranking.aliases(artifact) or artifact.pinned or artifact.actors or obstacle(artifact))


def _parent(catalog: ArtifactCatalog, artifact: Artifact) -> ResumedFrom | None:
    known = catalog.runs.get(artifact.run_id)
    if known is None or artifact.attempt not in known.starts:
        return None
    return known.starts[artifact.attempt]


def _fits(catalog: ArtifactCatalog, runner: str, algo: str) -> list[RunnerFit]:
    info = catalog.runners.get(runner)
    if info is None:
        return [RunnerFit(runner=runner)] if runner else []
    return [RunnerFit(runner=runner, uses=_uses(info, algo))]


def _uses(info: RunnerInfo, algo: str) -> list[str]:
    abilities = (
        (info.resumes, "resume"),
        (can_warm_start(info, algo), "warm start"),
        (EVALUATE in info.modes, "evaluate"),
    )
    return [use for able, use in abilities if able]
