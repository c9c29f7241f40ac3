"""Which checkpoint somebody means: a file, RUN, RUN:best, RUN:latest, RUN:step-N, a digest, an alias."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runspine.cli.ask import find
from runspine.client import Client
from runspine.errors import Invalid, NotFound, Unreachable
from runspine.plain import plain_value
from runspine.wire.v1.artifacts_pb2 import CheckpointCard
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import Value

LATEST, BEST = "latest", "best"
_STEP = re.compile(r"step-(\d+)\Z")
# Kinds of artifacts that hold a policy.
POLICIES = ("checkpoint", "model")


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint in S3, and what is said of it; empty where nothing is."""

    digest: str
    name: str
    run_id: str = ""
    env: str = ""
    env_kwargs: dict[str, Value] = field(default_factory=dict)
    algo: str = ""
    runner: str = ""
    seed: int | None = None
    step: int = 0
    project: str = ""
    # Numbers that it takes and gives; 0 when nobody says.
    inputs: int = 0
    outputs: int = 0


def is_file(text: str) -> bool:
    """Whether a file on this machine is meant rather than something the stack knows."""
    return ("/" in text and Path(text).exists()) or Path(text).is_file()


def resolve(client: Client, text: str) -> Found:
    """By the registry; of a run that it does not know of yet, by the run's own facts."""
    from runspine.cli.registry import card_of

    try:
        card = card_of(client, text if _is_whole(text) else _whole(client, text))
    except (NotFound, Unreachable) as error:
        return _in_run(client, text, error)
    return of_card(client, card)


def _is_whole(text: str) -> bool:
    return ":" in text


def _whole(client: Client, text: str) -> str:
    """RUN alone means its newest; anything else stays as it is."""
    try:
        return f"{find(client, text).run.id}:{LATEST}"
    except NotFound:
        return text


def of_card(client: Client, card: CheckpointCard) -> Found:
    artifact = card.artifact
    meta = artifact.meta
    spec = None
    if not card.source:
        try:
            spec = client.get(artifact.run_id).run.spec
        except NotFound:
            spec = None
    kwargs = (
        dict(spec.env_kwargs)
        if spec
        else dict(meta["env_kwargs"].map.entries)
        if "env_kwargs" in meta
        else {}
    )
    return Found(
        digest=artifact.digest,
        name=Path(artifact.name).name,
        run_id="" if card.source else artifact.run_id,
        env=card.env,
        env_kwargs=kwargs,
        algo=card.algo,
        runner=card.runner,
        seed=card.seed if card.HasField("seed") else None,
        step=artifact.step,
        project=card.project,
        inputs=_number(meta, "inputs"),
        outputs=_number(meta, "outputs"),
    )


def _in_run(client: Client, text: str, error: Exception) -> Found:
    name, _, which = text.rpartition(":") if ":" in text else (text, "", LATEST)
    try:
        answer = find(client, name)
    except NotFound:
        raise NotFound(
            f"there is no checkpoint {text!r}: give a file, a run, RUN:best, RUN:latest, the beginning of a "
            f"digest, or an alias ({error})"
        ) from error
    made = [a for attempt in answer.attempts for a in attempt.artifacts if a.kind in POLICIES]
    if not made:
        raise NotFound(f"run {answer.run.id} has no checkpoint yet")
    return of_artifact(answer.run, choose(made, which or LATEST, answer.run.id))


def choose(made: Sequence[ArtifactProduced], which: str, run_id: str) -> ArtifactProduced:
    """Pure. Raises Invalid or NotFound."""
    newest = sorted(made, key=lambda artifact: (artifact.step, artifact.attempt))
    if which == LATEST:
        return newest[-1]
    if which == BEST:
        scored = [artifact for artifact in newest if _mean(artifact) is not None]
        if not scored:
            raise NotFound(f"no checkpoint of run {run_id} says how well it did: use {run_id}:latest")
        return max(scored, key=lambda artifact: _mean(artifact) or 0.0)
    if match := _STEP.match(which):
        at = [artifact for artifact in newest if artifact.step == int(match[1])]
        if at:
            return at[-1]
        steps = ", ".join(f"step-{artifact.step}" for artifact in newest[-5:])
        raise NotFound(f"run {run_id} has no checkpoint at {which}; it has: {steps}")
    raise Invalid(f"{which!r} is not best, latest or step-<n>")


def of_artifact(run: Run, artifact: ArtifactProduced) -> Found:
    meta = artifact.meta
    seed = plain_value(meta["seed"]) if "seed" in meta else run.spec.seed
    return Found(
        digest=artifact.digest,
        name=Path(artifact.name).name,
        run_id=run.id,
        env=str(plain_value(meta["env_id"]) if "env_id" in meta else run.spec.env),
        env_kwargs=dict(run.spec.env_kwargs),
        algo=str(plain_value(meta["algo"]) if "algo" in meta else run.spec.algo),
        runner=run.spec.runner,
        seed=seed if isinstance(seed, int) else None,
        step=artifact.step,
        project=run.spec.project,
    )


def _number(meta: Mapping[str, Value], name: str) -> int:
    value = plain_value(meta[name]) if name in meta else 0
    return value if isinstance(value, int) else 0


def _mean(artifact: ArtifactProduced) -> float | None:
    value = plain_value(artifact.meta["return_mean"]) if "return_mean" in artifact.meta else None
    return float(value) if isinstance(value, int | float) and value == value else None
