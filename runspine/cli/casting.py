"""Who is meant by `runspine play --actor`: their name in a spec, and the checkpoint behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runspine.actors import AGENTS, BDI, POLICY
from runspine.cli.reference import Found, is_file, resolve
from runspine.cli.screen import note
from runspine.client import Client
from runspine.errors import Invalid
from runspine.fitting import Spaces, misfit, spaces_of
from runspine.plain import plain_value
from runspine.wire.v1.spec_pb2 import RunSpec

# Plans are shorter.
MOST_PLANS = 100_000
TOYS = "play in a toy-text env such as FrozenLake-v1, CliffWalking-v1 or Taxi-v4"


@dataclass(frozen=True, slots=True)
class Cast:
    name: str
    found: Found | None = None
    # AgentSpeak plans of an agent without a checkpoint.
    plan_text: str = ""


def cast(client: Client, text: str, env: str) -> Cast:
    """Raises Invalid with a way out, and NotFound."""
    if f"{text}:" == BDI:
        return _best_agent(client, env)
    reference = text.partition(":")[2]
    if text.startswith(BDI) and is_file(reference):
        return Cast(BDI.rstrip(":"), plan_text=_plans(reference))
    if text.startswith(BDI):
        return _agent(client, reference)
    if not text.startswith(POLICY):
        return Cast(text)
    found = _imported(client, reference, env) if is_file(reference) else resolve(client, reference)
    if found.runner in AGENTS:
        raise Invalid(f"{found.digest[:12]} is a BDI agent: name it with --actor {BDI}{reference}")
    return Cast(POLICY + found.digest, found)


def check_fit(chosen: Cast, spec: RunSpec) -> None:
    """Raises Invalid when what the actor sees and does is not what the env shows and takes.

    An env that cannot be made on this machine proves nothing; the session then says whether it fits.
    """
    found, is_agent = chosen.found, f"{chosen.name}:".startswith(BDI)
    if found is None and not is_agent:
        return
    kwargs = {name: plain_value(value) for name, value in spec.env_kwargs.items()}
    made = {name: plain_value(value) for name, value in found.env_kwargs.items()} if found else {}
    if found and found.env == spec.env and made == kwargs:
        return
    here = spaces_of(spec.env, kwargs)
    who = found.digest[:12] if found else "a BDI agent"
    if here is None:
        note(f"whether {who} fits {spec.env} cannot be told here: the session will say it")
        return
    if is_agent and not here.is_table:
        raise Invalid(f"a BDI agent's table needs numbered states and actions, and {spec.env} {here}: {TOYS}")
    if found is None:
        return
    theirs = spaces_of(found.env, made) if found.env else None
    theirs = theirs or Spaces(inputs=found.inputs, outputs=found.outputs)
    if why := misfit(theirs, here):
        instead = f", or play in {found.env}, where it was made" if found.env not in ("", spec.env) else ""
        raise Invalid(
            f"{who} does not fit {spec.env}: {why}. Choose one that does "
            f"(`runspine actors --env {spec.env}`){instead}"
        )


def _agent(client: Client, reference: str) -> Cast:
    found = resolve(client, reference)
    if found.runner not in AGENTS:
        made = f"a policy of runner {found.runner}" if found.runner else "a policy"
        raise Invalid(f"{found.digest[:12]} is {made}, no BDI agent: use --actor {POLICY}{reference}")
    return Cast(BDI + found.digest, found)


def _best_agent(client: Client, env: str) -> Cast:
    from runspine.cli.actors import known_actors

    agents = [actor for actor in known_actors(client, env, 1000) if actor.kind == BDI.rstrip(":")]
    if not agents:
        raise Invalid(
            f"there is no BDI agent for {env} yet: train one with runner spade_bdi (examples/bdi), name one "
            f"with {BDI}RUN, or give AgentSpeak plans with {BDI}FILE"
        )
    return Cast(agents[0].name, resolve(client, agents[0].name.removeprefix(BDI)))


def _plans(name: str) -> str:
    try:
        text = Path(name).read_bytes()[: MOST_PLANS + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{name} is no text of AgentSpeak plans ({error}): name an agent by its run") from error
    if len(text) > MOST_PLANS:
        raise Invalid(f"{name} has more than {MOST_PLANS:,} characters: plans are shorter")
    return text


def _imported(client: Client, name: str, env: str) -> Found:
    from runspine.cli.import_ import import_path
    from runspine.cli.reference import of_card

    cards = import_path(client, Path(name), env_if_unknown=env)
    if len(cards) != 1:
        raise Invalid(f"{name} holds {len(cards)} checkpoints: name one of them by its digest")
    return of_card(client, cards[0])
