"""Who can act in an env: people, chance, what workers offer, and every policy of the registry. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runspine.domain.defaults import DEFAULT_ACTOR
from runspine.play.actor_names import BDI, HUMAN, LLM, POLICY, RANDOM, kind_of
from runspine.spec.plain import plain_value
from runspine.wire.v1.artifacts_pb2 import CORRUPT, Actor, CheckpointCard
from runspine.wire.v1.spec_pb2 import Value

# Runners whose checkpoints are agents: plans that choose, with a table of values.
AGENTS = frozenset({"spade_bdi"})


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """An actor that play.actor can name, and what it can do."""

    name: str
    # human, random, policy, bdi, script or llm.
    kind: str
    # Shown to people.
    title: str
    # What it observes and what it does, as far as known.
    observes: str = ""
    acts: str = ""
    # Env it was made in; empty when it acts in any.
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
    cards: Iterable[CheckpointCard],
    activated: Sequence[Actor] = (),
    env: str = "",
    offered: Iterable[str] = (),
) -> list[ActorInfo]:
    """All actors for the env, or for any: people and chance, what workers offer (RunnerInfo.actors), then
    policies by env, in each env the activated ones first, then the best."""
    names: dict[str, list[str]] = {}
    for actor in activated:
        names.setdefault(actor.card.artifact.digest, []).append(actor.name)
    found = [_policy(card, names) for card in cards if _plays(card) and env in ("", card.env)]
    found.sort(key=_order)
    return [*ANYBODY, *map(_offered, sorted(set(offered))), *found]


def first_actor(actors: Sequence[ActorInfo], *preferred: str) -> str:
    """The actor to offer first in an env: the first of `preferred` that is there, else the one that is
    activated as the default, else a person."""
    names = {actor.name for actor in actors}
    if found := next((name for name in preferred if name in names), ""):
        return found
    return next((actor.name for actor in actors if DEFAULT_ACTOR in actor.activated), HUMAN)


def _order(actor: ActorInfo) -> tuple[object, ...]:
    worth = float("inf") if actor.score is None else -actor.score
    return actor.env, not actor.activated, worth, -actor.step, actor.name


def _offered(name: str) -> ActorInfo:
    if kind_of(name) == LLM:
        return ActorInfo(name, LLM, "language model", "texts", "Discrete and Box, in words")
    return ActorInfo(name, kind_of(name), f"script {name.partition(':')[2]}", "", "")


def _plays(card: CheckpointCard) -> bool:
    artifact = card.artifact
    return artifact.integrity != CORRUPT and not card.obstacle


def _policy(card: CheckpointCard, names: dict[str, list[str]]) -> ActorInfo:
    artifact = card.artifact
    kind = BDI if card.runner in AGENTS else POLICY
    what = "BDI agent" if kind == BDI else card.algo or "policy"
    title = f"{what} at step {artifact.step:,}" if artifact.step else what
    return ActorInfo(
        name=f"{kind}:{artifact.digest}",
        kind=kind,
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
