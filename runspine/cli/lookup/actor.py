"""Resolve `runspine play --actor` to an actor name and, for policies and agents, its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from runspine.cli.lookup.checkpoint_reference import FoundCheckpoint, from_card, is_file, resolve
from runspine.cli.lookup.registry import known_actors, offered_actors
from runspine.cli.ui.screen import note
from runspine.domain.defaults import DEFAULT_ACTOR
from runspine.errors import InvalidError, RunNotFoundError
from runspine.play.actor_names import (
    BDI,
    FORMS,
    HUMAN,
    HYBRID,
    LLM,
    POLICY,
    RANDOM,
    SCRIPT,
    agent_of,
    checkpoint_of,
    kind_of,
)
from runspine.play.actors import AGENTS
from runspine.play.fit import Spaces, misfit, spaces_of
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import plain_value
from runspine.wire.v1.spec_pb2 import RunSpec

MAX_PLAN_CHARACTERS = 100_000
TOYS = "play in a toy-text env such as FrozenLake-v1, CliffWalking-v1 or Taxi-v4"


@dataclass(frozen=True, slots=True)
class ChosenActor:
    """An actor as a run spec names it."""

    name: str
    found: FoundCheckpoint | None = None
    # AgentSpeak plans of an agent without a checkpoint.
    plan_text: str = ""


def choose_actor(client: Client, text: str, env: str) -> ChosenActor:
    """Resolve an --actor value. Raises InvalidError with a remedy, and RunNotFoundError."""
    kind, colon, reference = text.partition(":")
    if kind == HYBRID:
        return _hybrid(choose_actor(client, reference or DEFAULT_ACTOR, env))
    if kind == BDI:
        return _chosen_agent(client, reference, env)
    if kind == POLICY and colon:
        return _chosen_policy(client, reference, env)
    if kind in (SCRIPT, LLM):
        return _offered(client, text)
    if text in (HUMAN, RANDOM):
        return ChosenActor(text)
    return _activated(client, text, env)


def _hybrid(agent: ChosenActor) -> ChosenActor:
    if agent.name == HUMAN:
        raise InvalidError(f"{HYBRID} shares control with people: name what acts with them, such as a policy")
    return replace(agent, name=f"{HYBRID}:{agent.name}")


def _chosen_agent(client: Client, reference: str, env: str) -> ChosenActor:
    if not reference:
        return _best_agent(client, env)
    if is_file(reference):
        return ChosenActor(BDI, plan_text=_plans(reference))
    return _agent(client, reference)


def _chosen_policy(client: Client, reference: str, env: str) -> ChosenActor:
    try:
        found = _imported(client, reference, env) if is_file(reference) else resolve(client, reference)
    except RunNotFoundError:
        # Not an alias: perhaps the name of an actor.
        if not any(actor.name == reference for actor in ArtifactClient(client).actors()):
            raise
        return _activated(client, reference, env)
    if found.runner in AGENTS:
        raise InvalidError(f"{found.digest[:12]} is a BDI agent: name it with --actor {BDI}:{reference}")
    return ChosenActor(f"{POLICY}:{found.digest}", found)


def _activated(client: Client, name: str, env: str) -> ChosenActor:
    """The checkpoint that is activated under a name in the env."""
    named = [actor for actor in ArtifactClient(client).actors() if actor.name == name]
    here = next((actor for actor in named if actor.env == env), None)
    how = f"`runspine checkpoints activate REFERENCE --actor {name}`"
    if here is None and named:
        envs = ", ".join(actor.env for actor in named)
        raise InvalidError(
            f"actor {name} has no checkpoint in {env}, it has in {envs}: {how}, or play in {named[0].env}"
        )
    if here is None:
        raise InvalidError(
            f"no actor is called {name[:80]!r}: use {FORMS.replace('<sha256>', 'CHECKPOINT')}, "
            f"or activate a checkpoint under this name with {how}"
        )
    kind = BDI if here.card.runner in AGENTS else POLICY
    return ChosenActor(f"{kind}:{here.card.artifact.digest}", from_card(client, here.card))


def _offered(client: Client, text: str) -> ChosenActor:
    """A script or a language model that some worker offers."""
    offered = offered_actors(client)
    if text not in offered and not (kind_of(text) == LLM and LLM in offered):
        there = f"there are {', '.join(offered)}" if offered else "no worker offers any"
        how = "RUNSPINE_LLM_URL" if kind_of(text) == LLM else "an entry point of the group runspine.actors"
        raise InvalidError(f"no worker offers actor {text[:80]!r}, {there}: a worker gets it by {how}")
    return ChosenActor(text)


def check_fit(chosen: ChosenActor, spec: RunSpec) -> None:
    """Raise InvalidError when the spaces of the actor do not match those of the env.

    Skipped when the env cannot be created on this machine; the session checks it again.
    """
    found, is_agent = chosen.found, kind_of(agent_of(chosen.name)) == BDI
    if found is None and not is_agent:
        return
    kwargs = {name: plain_value(value) for name, value in spec.env_kwargs.items()}
    made = {name: plain_value(value) for name, value in found.env_kwargs.items()} if found else {}
    if found and found.env == spec.env and made == kwargs:
        return
    here = spaces_of(spec.env, kwargs)
    who = found.digest[:12] if found else "a BDI agent"
    if here is None:
        note(f"cannot check here whether {who} fits {spec.env}; the session checks it")
        return
    if is_agent and not here.is_table:
        raise InvalidError(
            f"a BDI agent's table needs numbered states and actions, and {spec.env} {here}: {TOYS}"
        )
    if found is None:
        return
    theirs = spaces_of(found.env, made) if found.env else None
    theirs = theirs or Spaces(inputs=found.inputs, outputs=found.outputs)
    if why := misfit(theirs, here):
        instead = f", or play in {found.env}, where it was made" if found.env not in ("", spec.env) else ""
        raise InvalidError(
            f"{who} does not fit {spec.env}: {why}. Choose one that does "
            f"(`runspine actors --env {spec.env}`){instead}"
        )


def _agent(client: Client, reference: str) -> ChosenActor:
    found = resolve(client, reference)
    if found.runner not in AGENTS:
        made = f"a policy of runner {found.runner}" if found.runner else "a policy"
        raise InvalidError(
            f"{found.digest[:12]} is {made}, not a BDI agent: use --actor {POLICY}:{reference}"
        )
    return ChosenActor(f"{BDI}:{found.digest}", found)


def _best_agent(client: Client, env: str) -> ChosenActor:
    agents = [actor for actor in known_actors(client, env, 1000) if actor.kind == BDI]
    if not agents:
        raise InvalidError(
            f"no BDI agent for {env} yet: train one with runner spade_bdi (examples/bdi), name one "
            f"with {BDI}:RUN, or give AgentSpeak plans with {BDI}:FILE"
        )
    best = max(agents, key=lambda actor: float("-inf") if actor.score is None else actor.score)
    return ChosenActor(best.name, resolve(client, checkpoint_of(best.name)))


def _plans(name: str) -> str:
    try:
        text = Path(name).read_bytes()[: MAX_PLAN_CHARACTERS + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(
            f"{name} is not a text file of AgentSpeak plans ({error}): name an agent by its run"
        ) from error
    if len(text) > MAX_PLAN_CHARACTERS:
        raise InvalidError(f"{name} has more than {MAX_PLAN_CHARACTERS:,} characters, the limit for plans")
    return text


def _imported(client: Client, name: str, env: str) -> FoundCheckpoint:
    from runspine.cli.lookup.checkpoint_import import import_path

    cards = import_path(client, Path(name), env_if_unknown=env)
    if len(cards) != 1:
        raise InvalidError(f"{name} holds {len(cards)} checkpoints: name one of them by its digest")
    return from_card(client, cards[0])
