"""Ranking of checkpoints: scores, and the best and the latest of each run, env and algorithm. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from runspine.domain.artifact import IMPORTS
from runspine.domain.artifact_kinds import LOADABLE
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.wire.v1.artifacts_pb2 import GOOD, KEPT, Artifact, CardScore
from runspine.wire.v1.run_pb2 import COMPLETED, Phase
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, Mode, Value

# Metadata in which trainers write the return of a checkpoint, the most reliable first.
RETURNS = ("eval_return_mean", "return_mean", "mean_return", "mean_reward", "episodic_return", "return")


@dataclass(frozen=True, slots=True)
class CardSource:
    """The run or import of an artifact, as shown on its card."""

    run_id: str
    name: str
    project: str
    env: str
    algo: str
    runner: str
    seed: int | None
    phase: Phase
    begun_at: int
    agent: str
    source: str = ""
    mode: Mode = Mode.MODE_UNSPECIFIED

    @property
    def uses_policies(self) -> bool:
        """Whether the run uses a policy and trains none: what it stores is no new checkpoint.

        Evaluations of earlier releases stored the file that they evaluated as a model of their own.
        """
        return self.mode in (EVALUATE, PLAY)


def card_source(catalog: ArtifactCatalog, run_id: str) -> CardSource:
    entry = catalog.run_artifacts.get(run_id)
    if entry is not None and entry.HasField("imported"):
        imported = entry.imported
        return CardSource(
            run_id, imported.name, imported.project, imported.env, imported.algo, imported.runner,
            imported.seed if imported.HasField("seed") else None, COMPLETED, entry.imported_at,
            f"{imported.env}/{imported.algo}", imported.source,
        )  # fmt: skip
    if run_id not in catalog.runs:
        return CardSource(run_id, "", "", "", "", "", None, Phase.PHASE_UNSPECIFIED, 0, "/")
    run = catalog.runs[run_id].run
    spec = run.spec
    agent = run.labels.get("agent", "") or f"{spec.env}/{spec.algo}"
    if spec.mode == EVALUATE:
        agent += " evaluations"  # evaluations must not displace the runs that they evaluate
    return CardSource(
        run_id, run.name, spec.project, spec.env, spec.algo, spec.runner,
        spec.seed if spec.HasField("seed") else None, run.phase, run.submitted_at, agent,
        mode=spec.mode,
    )  # fmt: skip


def is_import(run_id: str) -> bool:
    return run_id.startswith(IMPORTS)


def score(catalog: ArtifactCatalog, artifact: Artifact, env: str) -> CardScore | None:
    """The score from an evaluation, else from the checkpoint's metadata, else from the run's curve."""
    evaluated = catalog.evaluations.get(artifact.digest)
    if evaluated is not None and evaluated.env in ("", env) and math.isfinite(evaluated.mean):
        return CardScore(
            mean=evaluated.mean, source="evaluation", episodes=evaluated.episodes, std=evaluated.std
        )
    for name in RETURNS:
        value = _number(artifact.meta[name]) if name in artifact.meta else None
        if value is not None:
            return CardScore(mean=value, source="checkpoint")
    if artifact.HasField("return_then") and math.isfinite(artifact.return_then):
        return CardScore(mean=artifact.return_then, source="training")
    return None


def _number(value: Value) -> float | None:
    kind = value.WhichOneof("kind")
    if kind == "integer":
        return float(value.integer)
    if kind == "number" and math.isfinite(value.number):
        return value.number
    return None


def is_good(artifact: Artifact) -> bool:
    return artifact.integrity == GOOD and artifact.keeping == KEPT


def age_order(artifact: Artifact) -> tuple[int, int, int]:
    """Sort key by training progress: step, then attempt, then time."""
    return artifact.step, artifact.attempt, artifact.produced_at


def latest(artifacts: Iterable[Artifact]) -> Artifact | None:
    return max((a for a in artifacts if a.kind in LOADABLE and is_good(a)), key=age_order, default=None)


def best(catalog: ArtifactCatalog, artifacts: Iterable[Artifact], env: str) -> Artifact | None:
    """The checkpoint with the highest mean return, of equals the furthest; None without any score."""
    scored = [
        (found.mean, age_order(artifact), artifact)
        for artifact in artifacts
        if artifact.kind in LOADABLE
        and is_good(artifact)
        and (found := score(catalog, artifact, env)) is not None
    ]
    return max(scored, key=lambda each: each[:2])[2] if scored else None


class Ranking:
    """Best and latest checkpoints for one version of the catalog."""

    def __init__(self, catalog: ArtifactCatalog) -> None:
        self.catalog = catalog
        self.version = catalog.version
        self.sources = {run_id: card_source(catalog, run_id) for run_id in catalog.run_artifacts}
        self.best_of_run: dict[str, Artifact] = {}
        self.latest_of_run: dict[str, Artifact] = {}
        self.best_of_kind: dict[str, Artifact] = {}
        self.latest_of_kind: dict[str, Artifact] = {}
        groups: dict[str, list[Artifact]] = {}
        newest: dict[str, tuple[int, Artifact]] = {}
        for run_id, entry in catalog.run_artifacts.items():
            self._rank_run(run_id, list(entry.artifacts.values()), groups, newest)
        for kind, artifacts in groups.items():
            found = best(catalog, artifacts, self.sources[artifacts[0].run_id].env)
            if found is not None:
                self.best_of_kind[kind] = found
        self.latest_of_kind = {kind: artifact for kind, (_, artifact) in newest.items()}

    def _rank_run(
        self,
        run_id: str,
        artifacts: list[Artifact],
        groups: dict[str, list[Artifact]],
        newest: dict[str, tuple[int, Artifact]],
    ) -> None:
        this = self.sources[run_id]
        kind = policy_kind(this)
        if this.uses_policies:
            return
        if (found := best(self.catalog, artifacts, this.env)) is not None:
            self.best_of_run[run_id] = found
            groups.setdefault(kind, []).append(found)
        if (last := latest(artifacts)) is not None:
            self.latest_of_run[run_id] = last
            if last.produced_at >= newest.get(kind, (0, last))[0]:
                newest[kind] = (last.produced_at, last)

    def aliases(self, artifact: Artifact) -> list[str]:
        """Every alias of an artifact, those set by people first."""
        kind = policy_kind(self.sources[artifact.run_id])
        standing = [
            (self.best_of_run.get(artifact.run_id), "best"),
            (self.latest_of_run.get(artifact.run_id), "latest"),
            (self.best_of_kind.get(kind), f"{kind}:best"),
            (self.latest_of_kind.get(kind), f"{kind}:latest"),
        ]
        given = [a for a in artifact.aliases if self.catalog.aliases.get(a) == _place(artifact)]
        return given + [name for holder, name in standing if holder is not None and _same(holder, artifact)]


def policy_kind(this: CardSource) -> str:
    """The env and algorithm of a policy."""
    return f"{this.env}/{this.algo}"


def _place(artifact: Artifact) -> tuple[str, str]:
    return artifact.run_id, artifact.digest


def _same(one: Artifact, other: Artifact) -> bool:
    return _place(one) == _place(other)
