"""Lines of the protocol that a recorder writes. Pure. Formatted as text: json.dumps takes much longer."""

from __future__ import annotations

import json
from array import array
from typing import Any, NamedTuple

import numpy as np

from runspine.sdk.columns import Column, Taken
from runspine.sdk.encoding import Packed, base64_text, dumps, number, packed_text
from runspine.sdk.episode import Episode
from runspine.sdk.identity import Identity
from runspine.sdk.step_frame import step_frame

TERMINATED, TRUNCATED = 1, 2
_encode = json.JSONEncoder(separators=(",", ":")).encode

MAX_NOTE = 1000


class Block(NamedTuple):
    """Consecutive steps of an episode, and how the last of them ended."""

    episode: Episode
    first: int
    global_step: int
    flags: int
    began: float
    ended: float
    actions: tuple[Column, list[Any]]
    observations: tuple[Column, list[Any]]
    rewards: list[Any]
    # Who chose the actions; empty outside a play session.
    actor: str = ""
    # Which of several agents acted.
    agent: str = ""
    # Whether the worker reads frames.
    binary: bool = False


def steps(slot: int, block: Block) -> str | bytes:
    """A frame where the worker reads them and the values are numbers, else a line."""
    rewards = _doubles(block.rewards)
    # Lines are formatted in the order in which they were queued: the sum is complete at the episode's line.
    block.episode.value = sum(rewards, block.episode.value)
    column, rows = block.actions
    actions = column.pack(rows)
    column, rows = block.observations
    seen = column.pack(rows)
    where = (
        f'"episode_id":"{block.episode.id}","slot":{slot},"first":{block.first}'
        f',"n":{len(rewards)},"global_step":{block.global_step}{_actor(block)}'
        f',"t0":{block.began:.6f},"t1":{block.ended:.6f}'
    )
    if block.binary:
        made = step_frame(f'{where},"flags":{block.flags}', rewards.tobytes(), actions, seen)
        if made is not None:
            return made
    flags = base64_text(bytes(len(rewards) - 1) + bytes((block.flags,)))
    return (
        f'{{"type":"steps",{where},"action":{_values(actions)}'
        f',"reward":{{"dtype":"<f8","shape":[],"data":"{base64_text(rewards.tobytes())}"}}'
        f',"flags":"{flags}"{_observations(seen)}}}'
    )


def episode(slot: int, ended: Episode, flags: int, global_step: int, at: float, agent: str = "") -> str:
    return (
        f'{{"type":"episode","episode_id":"{ended.id}","slot":{slot},"steps":{ended.steps}'
        f',"return":{number(ended.value)},"t_end":{at:.6f},"global_step":{global_step}'
        f',"terminated":{_bool(flags & TERMINATED)},"truncated":{_bool(flags & TRUNCATED)}{_agent(agent)}}}'
    )


def metrics(values: dict[str, float], step: int | None, at: float) -> str:
    where = "" if step is None else f',"step":{step}'
    return f'{{"type":"metrics","values":{_encode(values)}{where},"t":{at:.6f}}}'


def reset(slot: int, begun: Episode) -> str:
    return (
        f'{{"type":"reset","episode_id":"{begun.id}","slot":{slot},"ordinal":{begun.ordinal}'
        + ("" if begun.seed is None else f',"seed":{dumps(begun.seed)}')
        + ("" if begun.options is None else f',"options":{dumps(begun.options)}')
        + ("" if begun.rng is None else f',"rng":{_generator(begun.rng)}')
        + ("" if begun.state is None else f',"state":{_encode(begun.state)}')
        + ("" if not begun.at else f',"t":{begun.at:.6f}')
        + _first(begun)
        + "}"
    )


def env(slot: int, what: Identity, at: float) -> str:
    """The `env` line. Its time assigns episodes to envs where a slot has several in sequence."""
    return dumps({"type": "env", "slot": slot, **what._asdict(), "t": round(at, 6)})


def total(rewards: list[Any]) -> float:
    return sum(_doubles(rewards))


def _doubles(rewards: list[Any]) -> array[float]:
    try:
        return array("d", rewards)
    except TypeError:
        return array("d", [float(np.asarray(reward).reshape(-1)[0]) for reward in rewards])


def _values(column: Taken) -> str:
    return packed_text(column) if isinstance(column, Packed) else dumps(column)


def _observations(column: Taken) -> str:
    if column is None:
        return ""
    if isinstance(column, bytes):
        return f',"obs_hash":"{base64_text(column)}"'
    return f',"obs":{_values(column)}'


def _actor(block: Block) -> str:
    actor = f',"actor":{_encode(block.actor)}' if block.actor else ""
    return actor + _agent(block.agent)


def _agent(name: str) -> str:
    return f',"agent_id":{_encode(name)}' if name else ""


def _first(begun: Episode) -> str:
    """The first observation, encoded like the others of its column."""
    if begun.first_column is None:
        return ""
    packed = begun.first_column.pack([begun.first])
    return f',"obs":{dumps(packed[0])}' if isinstance(packed, list) else _observations(packed)


def _generator(state: dict[str, Any]) -> str:
    """State of a numpy bit generator; the usual one formatted by hand, because every reset has one."""
    if state.get("bit_generator") == "PCG64":
        words = state["state"]
        return (
            f'{{"bit_generator":"PCG64","state":{{"state":{words["state"]},"inc":{words["inc"]}}}'
            f',"has_uint32":{state["has_uint32"]},"uinteger":{state["uinteger"]}}}'
        )
    return dumps(state)


def _bool(value: int) -> str:
    return "true" if value else "false"


def note(text: str) -> str:
    """A line of the run's log, which is not of the protocol."""
    plain = " ".join(text.split()).encode("ascii", "backslashreplace").decode("ascii")
    return f"runspine: {plain[:MAX_NOTE]}"
