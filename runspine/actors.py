"""Who can act in an env: people, chance, and every policy and agent of the registry that fits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runspine.plain import plain_value
from runspine.wire.v1.artifacts_pb2 import CORRUPT, Actor, CheckpointCard
from runspine.wire.v1.spec_pb2 import Value

HUMAN, RANDOM, POLICY, BDI = "human", "random", "policy:", "bdi:"
# Runners whose checkpoints are agents: plans that choose, with a table of values.
AGENTS = frozenset({"spade_bdi"})


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """One that can be named in play.actor, and what it can do."""

    name: str
    # human, random, policy or bdi.
    kind: str
    # For people.
    title: str
    # What it observes and what it does, as far as it is known.
    observes: str = ""
    acts: str = ""
    # Env it was made in; empty when any will do.
    env: str = ""
    algo: str = ""
    step: int = 0
    score: float | None = None
    run_id: str = ""
    # Names that it was activated under.
    activated: tuple[str, ...] = ()


ANYBODY = (
    ActorInfo(HUMAN, HUMAN, "human at the keyboard", "pictures", "Discrete and Box, by keys"),
    ActorInfo(RANDOM, RANDOM, "random actions", "nothing", "any space"),
)


def actors_of(
    cards: Iterable[CheckpointCard], activated: Sequence[Actor] = (), env: str = ""
) -> list[ActorInfo]:
    """Everybody who can act in the env, or in any; policies in the order of their cards."""
    names: dict[str, list[str]] = {}
    for actor in activated:
        names.setdefault(actor.card.artifact.digest, []).append(actor.name)
    found = [_policy(card, names) for card in cards if _plays(card) and env in ("", card.env)]
    return [*ANYBODY, *found]


def _plays(card: CheckpointCard) -> bool:
    artifact = card.artifact
    return artifact.integrity != CORRUPT and not card.obstacle


def _policy(card: CheckpointCard, names: dict[str, list[str]]) -> ActorInfo:
    artifact = card.artifact
    prefix = BDI if card.runner in AGENTS else POLICY
    what = "BDI agent" if prefix == BDI else card.algo or "policy"
    title = f"{what} at step {artifact.step:,}" if artifact.step else what
    return ActorInfo(
        name=prefix + artifact.digest,
        kind=prefix.rstrip(":"),
        title=title,
        observes=_size(artifact.meta, "inputs"),
        acts=_size(artifact.meta, "outputs"),
        env=card.env,
        algo=card.algo,
        step=artifact.step,
        score=card.score.mean if card.HasField("score") else None,
        run_id="" if card.source else artifact.run_id,
        activated=tuple(names.get(artifact.digest, ())),
    )


def _size(meta: Mapping[str, Value], name: str) -> str:
    value = plain_value(meta[name]) if name in meta else None
    return f"{value} numbers" if isinstance(value, int) and value else ""
