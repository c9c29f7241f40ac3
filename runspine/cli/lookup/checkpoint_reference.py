"""Resolve a checkpoint reference: file, RUN, RUN:best, RUN:latest, RUN:step-N, digest or alias."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runspine.cli.lookup.run import find
from runspine.domain.artifact_kinds import LOADABLE
from runspine.errors import InvalidError, RunNotFoundError, UnreachableError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import plain_value
from runspine.wire.v1.artifacts_pb2 import CheckpointCard
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import Value

LATEST, BEST = "latest", "best"
_STEP = re.compile(r"step-(\d+)\Z")


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint in S3 and its metadata; fields are empty where unknown."""

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
    # Numbers of observations and actions; 0 when unknown.
    inputs: int = 0
    outputs: int = 0


def is_file(text: str) -> bool:
    """Whether the reference names a local file."""
    return ("/" in text and Path(text).exists()) or Path(text).is_file()


def resolve(client: Client, text: str) -> FoundCheckpoint:
    """Look up a checkpoint in the registry, or in the facts of a run that is not indexed yet."""
    from runspine.cli.lookup.registry import card_of

    try:
        card = card_of(client, text if ":" in text else _expand(client, text))
    except (RunNotFoundError, UnreachableError) as error:
        return _in_run(client, text, error)
    return from_card(client, card)


def _expand(client: Client, text: str) -> str:
    """Expand RUN to RUN:latest; return anything else unchanged."""
    try:
        return f"{find(client, text).run.id}:{LATEST}"
    except RunNotFoundError:
        return text


def from_card(client: Client, card: CheckpointCard) -> FoundCheckpoint:
    artifact = card.artifact
    meta = artifact.meta
    spec = None
    if not card.source:
        try:
            spec = client.get(artifact.run_id).run.spec
        except RunNotFoundError:
            spec = None
    kwargs = (
        dict(spec.env_kwargs)
        if spec
        else dict(meta["env_kwargs"].map.entries)
        if "env_kwargs" in meta
        else {}
    )
    return FoundCheckpoint(
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


def _in_run(client: Client, text: str, error: Exception) -> FoundCheckpoint:
    name, _, which = text.rpartition(":") if ":" in text else (text, "", LATEST)
    try:
        answer = find(client, name)
    except RunNotFoundError:
        raise RunNotFoundError(
            f"no checkpoint {text!r}: give a file, a run, RUN:best, RUN:latest, a digest prefix "
            f"or an alias ({error})"
        ) from error
    made = [a for attempt in answer.attempts for a in attempt.artifacts if a.kind in LOADABLE]
    if not made:
        raise RunNotFoundError(f"run {answer.run.id} has no checkpoint yet")
    return from_artifact(answer.run, choose(made, which or LATEST, answer.run.id))


def choose(made: Sequence[ArtifactProduced], which: str, run_id: str) -> ArtifactProduced:
    """Return the checkpoint that best, latest or step-N selects. Raises InvalidError, RunNotFoundError."""
    newest = sorted(made, key=lambda artifact: (artifact.step, artifact.attempt))
    if which == LATEST:
        return newest[-1]
    if which == BEST:
        scored = [artifact for artifact in newest if _mean(artifact) is not None]
        if not scored:
            raise RunNotFoundError(f"no checkpoint of run {run_id} has a score: use {run_id}:latest")
        return max(scored, key=lambda artifact: _mean(artifact) or 0.0)
    if match := _STEP.match(which):
        at = [artifact for artifact in newest if artifact.step == int(match[1])]
        if at:
            return at[-1]
        steps = ", ".join(f"step-{artifact.step}" for artifact in newest[-5:])
        raise RunNotFoundError(f"run {run_id} has no checkpoint at {which}; it has: {steps}")
    raise InvalidError(f"{which!r} is not best, latest or step-<n>")


def from_artifact(run: Run, artifact: ArtifactProduced) -> FoundCheckpoint:
    meta = artifact.meta
    seed = plain_value(meta["seed"]) if "seed" in meta else run.spec.seed
    return FoundCheckpoint(
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
