"""How checkpoints stand: scores, the best and the latest of a run and of an env and algorithm. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from runspine.artifact import IMPORTS, LOADABLE
from runspine.wire.v1.artifacts_pb2 import GOOD, KEPT, Artifact, CardScore
from runspine.wire.v1.run_pb2 import COMPLETED, Phase
from runspine.wire.v1.spec_pb2 import EVALUATE, Value
from services.artifacts.core.catalog import Catalog

# Where trainers write how well a checkpoint did, the best-founded first.
RETURNS = ("eval_return_mean", "return_mean", "mean_return", "mean_reward", "episodic_return", "return")


@dataclass(frozen=True, slots=True)
class About:
    """What a card says of the run, or of the import, that an artifact is from."""

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


def about(catalog: Catalog, run_id: str) -> About:
    shelf = catalog.shelves.get(run_id)
    if shelf is not None and shelf.HasField("imported"):
        said = shelf.imported
        return About(
            run_id, said.name, said.project, said.env, said.algo, said.runner,
            said.seed if said.HasField("seed") else None, COMPLETED, shelf.imported_at,
            f"{said.env}/{said.algo}", said.source,
        )  # fmt: skip
    if run_id not in catalog.runs:
        return About(run_id, "", "", "", "", "", None, Phase.PHASE_UNSPECIFIED, 0, "/")
    run = catalog.runs[run_id].run
    spec = run.spec
    agent = run.labels.get("agent", "") or f"{spec.env}/{spec.algo}"
    if spec.mode == EVALUATE:
        agent += " evaluations"  # they must not push out the runs that they are about
    return About(
        run_id, run.name, spec.project, spec.env, spec.algo, spec.runner,
        spec.seed if spec.HasField("seed") else None, run.phase, run.submitted_at, agent,
    )  # fmt: skip


def is_import(run_id: str) -> bool:
    return run_id.startswith(IMPORTS)


def score(catalog: Catalog, artifact: Artifact, env: str) -> CardScore | None:
    """An evaluation says most, then the trainer's own word beside it, then the run's curve."""
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
    """How far training had come: the furthest step, then the latest attempt, then the clock."""
    return artifact.step, artifact.attempt, artifact.produced_at


def latest(artifacts: Iterable[Artifact]) -> Artifact | None:
    return max((a for a in artifacts if a.kind in LOADABLE and is_good(a)), key=age_order, default=None)


def best(catalog: Catalog, artifacts: Iterable[Artifact], env: str) -> Artifact | None:
    """The highest mean return; of equals the furthest. None when nobody has said how well any does."""
    scored = [
        (found.mean, age_order(artifact), artifact)
        for artifact in artifacts
        if artifact.kind in LOADABLE
        and is_good(artifact)
        and (found := score(catalog, artifact, env)) is not None
    ]
    return max(scored, key=lambda each: each[:2])[2] if scored else None


class Standings:
    """Best and latest of everything, worked out once for one question."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.version = catalog.version
        self.about = {run_id: about(catalog, run_id) for run_id in catalog.shelves}
        self.best_of_run: dict[str, Artifact] = {}
        self.latest_of_run: dict[str, Artifact] = {}
        self.best_of_kind: dict[str, Artifact] = {}
        self.latest_of_kind: dict[str, Artifact] = {}
        groups: dict[str, list[Artifact]] = {}
        newest: dict[str, tuple[int, Artifact]] = {}
        for run_id, shelf in catalog.shelves.items():
            self._stand(run_id, list(shelf.artifacts.values()), groups, newest)
        for kind, artifacts in groups.items():
            found = best(catalog, artifacts, self.about[artifacts[0].run_id].env)
            if found is not None:
                self.best_of_kind[kind] = found
        self.latest_of_kind = {kind: artifact for kind, (_, artifact) in newest.items()}

    def _stand(
        self,
        run_id: str,
        artifacts: list[Artifact],
        groups: dict[str, list[Artifact]],
        newest: dict[str, tuple[int, Artifact]],
    ) -> None:
        this = self.about[run_id]
        kind = kind_of(this)
        if (found := best(self.catalog, artifacts, this.env)) is not None:
            self.best_of_run[run_id] = found
            groups.setdefault(kind, []).append(found)
        if (last := latest(artifacts)) is not None:
            self.latest_of_run[run_id] = last
            if last.produced_at >= newest.get(kind, (0, last))[0]:
                newest[kind] = (last.produced_at, last)

    def aliases(self, artifact: Artifact) -> list[str]:
        """Every name that stands for it, the given ones first."""
        kind = kind_of(self.about[artifact.run_id])
        standing = [
            (self.best_of_run.get(artifact.run_id), "best"),
            (self.latest_of_run.get(artifact.run_id), "latest"),
            (self.best_of_kind.get(kind), f"{kind}:best"),
            (self.latest_of_kind.get(kind), f"{kind}:latest"),
        ]
        given = [a for a in artifact.aliases if self.catalog.aliases.get(a) == _place(artifact)]
        return given + [name for holder, name in standing if holder is not None and _same(holder, artifact)]


def kind_of(this: About) -> str:
    """What a policy is for: its env and algorithm."""
    return f"{this.env}/{this.algo}"


def _place(artifact: Artifact) -> tuple[str, str]:
    return artifact.run_id, artifact.digest


def _same(one: Artifact, other: Artifact) -> bool:
    return _place(one) == _place(other)
