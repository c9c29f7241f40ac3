"""Each type of protocol line, from its object to an event; Wrong or KeyError for what is none. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from runspine.scores import figures_of
from runspine.wire.v1.telemetry_pb2 import EnvMade, Episode, Reset, Score, StepBlock
from services.worker.protocol_events import Artifact, Config, Event, Metrics, Mind, Reached, Step
from services.worker.protocol_fields import (
    Wrong,
    array,
    count,
    dumps,
    encoded,
    flag,
    is_column,
    micros,
    name,
    number,
    slot,
    texts,
)

# What cannot be cut into rows must fit into a batch as it is; larger, it is kept as a log line.
LARGEST_VALUE = 200 << 10
# A line shorter than this cannot hold such a value, however its numbers are written.
SMALL_LINE = LARGEST_VALUE // 8
MIND_LISTS = ("goals", "beliefs", "intentions")


def _time(said: dict[str, Any], field: str, at: int) -> int:
    value = said.get(field)
    return at if value is None else micros(value)


def _where(said: dict[str, Any]) -> tuple[str, int, str]:
    """Episode, slot and agent."""
    agent = said.get("agent_id")
    return name(said["episode_id"]), slot(said.get("slot", 0)), "" if agent is None else name(agent)


def _actor(said: dict[str, Any]) -> str:
    actor = said.get("actor")
    return "" if actor is None else name(actor)


def _flags(terminated: object, truncated: object) -> int:
    return (1 if flag(terminated) else 0) | (2 if flag(truncated) else 0)


def _step(said: dict[str, Any], at: int, line: bytes) -> Step:
    episode_id, where, agent_id = _where(said)
    action = said["action"]
    if len(line) > SMALL_LINE and len(dumps(action)) * 4 > LARGEST_VALUE:
        raise Wrong("an action too large for a batch")
    return Step(
        episode_id,
        where,
        agent_id,
        count(said["step"]),
        action,
        number(said["reward"]),
        _flags(said["terminated"], said["truncated"]),
        said.get("obs"),
        _time(said, "t", at),
        count(said.get("global_step", 0)),
        len(line),
        _actor(said),
    )


def _steps(said: dict[str, Any], at: int, line: bytes) -> StepBlock:
    episode_id, where, agent_id = _where(said)
    first, rows = count(said["first"]), slot(said["n"])
    flags, reward = encoded(said["flags"]), array(said["reward"], rows)
    if rows < 1 or len(flags) != rows or reward.shape or first + rows >= 1 << 63 or max(flags) > 3:
        raise Wrong("not so many steps")
    last = _time(said, "t1", at)
    block = StepBlock(
        episode_id=episode_id,
        slot=where,
        agent_id=agent_id,
        first_step=first,
        count=rows,
        reward=reward,
        flags=flags,
        first_at=_time(said, "t0", last),
        last_at=last,
        global_step=count(said.get("global_step", 0)),
        actor=_actor(said),
    )
    _add_actions(block, said["action"], rows)
    _add_observations(block, said, rows)
    if len(line) > SMALL_LINE and _widest(block) > LARGEST_VALUE:
        raise Wrong("an action too large for a batch")
    return block


def _add_actions(block: StepBlock, said: object, rows: int) -> None:
    if type(said) is list:
        block.action_json.extend(texts(said, rows))
    elif type(said) is dict:
        block.action.CopyFrom(array(said, rows))
    else:
        raise Wrong("no actions")


def _add_observations(block: StepBlock | Reset, said: dict[str, Any], rows: int) -> None:
    """`obs` as a column or, for each row, as JSON; `obs_hash` beside it or instead."""
    obs, hashes = said.get("obs"), said.get("obs_hash")
    if hashes is not None:
        block.observation_hash = encoded(hashes)
        if len(block.observation_hash) != rows * 8:
            raise Wrong("not so many hashes")
    if is_column(obs):
        block.observation.CopyFrom(array(obs, rows))
    elif isinstance(block, Reset):
        block.observation_json = "" if obs is None else dumps(obs)
    elif type(obs) is list:
        block.observation_json.extend(texts(obs, rows))
    elif obs is not None:
        raise Wrong("no observations")


def _widest(block: StepBlock) -> int:
    """Bytes of the largest action, which cannot be cut."""
    return max([len(block.action.data) // block.count, *map(len, block.action_json)])


def _episode(said: dict[str, Any], at: int, line: bytes) -> Episode:
    episode_id, where, agent_id = _where(said)
    return Episode(
        episode_id=episode_id,
        slot=where,
        agent_id=agent_id,
        steps=count(said["steps"]),
        ended_at=_time(said, "t_end", at),
        global_step=count(said.get("global_step", 0)),
        flags=_flags(said.get("terminated", False), said.get("truncated", False)),
        # A keyword in Python.
        **{"return": number(said["return"])},
    )


def _metric(said: dict[str, Any], at: int, line: bytes) -> Metrics:
    return _points({name(said["name"]): number(said["value"])}, said, at)


def _metrics(said: dict[str, Any], at: int, line: bytes) -> Metrics:
    values = said["values"]
    if type(values) is not dict or not values:
        raise Wrong("no values")
    return _points({name(each): number(value) for each, value in values.items()}, said, at)


def _points(values: dict[str, float], said: dict[str, Any], at: int) -> Metrics:
    step = said.get("step")
    return Metrics(values, None if step is None else count(step), _time(said, "t", at))


def _env(said: dict[str, Any], at: int, line: bytes) -> EnvMade:
    kwargs, versions = said.get("kwargs") or {}, said.get("versions") or {}
    if type(kwargs) is not dict or type(versions) is not dict:
        raise Wrong("not an object")
    return _fitting(
        EnvMade(
            slot=slot(said.get("slot", 0)),
            env_id=name(said["env_id"]),
            kwargs_json=dumps(kwargs),
            versions={name(package): name(version) for package, version in versions.items()},
            at=_time(said, "t", at),
            entry_point=name(said.get("entry_point") or ""),
            wrappers_json=_optional(said.get("wrappers")),
        )
    )


def _reset(said: dict[str, Any], at: int, line: bytes) -> Reset:
    episode_id, where, agent_id = _where(said)
    reset = Reset(
        episode_id=episode_id,
        slot=where,
        agent_id=agent_id,
        ordinal=count(said["ordinal"]),
        seed_json=_optional(said.get("seed")),
        options_json=_optional(said.get("options")),
        rng_json=_optional(said.get("rng")),
        state_json=_optional(said.get("state")),
        at=_time(said, "t", at),
    )
    if reset.ByteSize() > LARGEST_VALUE:
        raise Wrong("too large for a batch")
    _add_observations(reset, said, 1)
    return reset


def _config(said: dict[str, Any], at: int, line: bytes) -> Config:
    text = dumps(said)
    if len(text) > LARGEST_VALUE:
        raise Wrong("too large for a batch")
    return Config(text)


def _artifact(said: dict[str, Any], at: int, line: bytes) -> Artifact:
    if type(said["kind"]) is not str or type(said["path"]) is not str or len(line) > LARGEST_VALUE:
        raise Wrong("not a file")
    # Whoever takes it up must be able to write it down.
    json.dumps(said, ensure_ascii=False).encode()
    return Artifact(said)


def _progress(said: dict[str, Any], at: int, line: bytes) -> Reached:
    total = said.get("total")
    return Reached(count(said["step"]), None if total is None else count(total))


def _evaluation(said: dict[str, Any], at: int, line: bytes) -> Score:
    returns = [number(each) for each in _list(said["returns"])]
    lengths = [slot(each) for each in _list(said.get("lengths") or [])]
    if not returns or (lengths and len(lengths) != len(returns)):
        raise Wrong("not as many lengths as returns")
    score = Score(
        batch=slot(said.get("batch", 0)),
        digest=name(said.get("digest", "")),
        env_id=name(said.get("env_id", "")),
        algo=name(said.get("algo", "")),
        seed=count(said.get("seed", 0)),
        deterministic=flag(said.get("deterministic", False)),
        returns=returns,
        lengths=lengths,
        seconds=number(said.get("seconds", 0.0)),
        step=count(said.get("step", 0)),
        at=_time(said, "t", at),
        **figures_of(returns)._asdict(),
    )
    if score.ByteSize() > LARGEST_VALUE:
        raise Wrong("too large for a batch")
    return score


def _mind(said: dict[str, Any], at: int, line: bytes) -> Mind:
    lists = {field: [name(each) for each in _list(said.get(field, []))] for field in MIND_LISTS}
    values = {f"mind/{field}": float(len(each)) for field, each in lists.items()}
    told: dict[str, Any] = dict(lists)
    if said.get("confidence") is not None:
        told["confidence"] = values["mind/confidence"] = number(said["confidence"])
    step, agent_id = said.get("step"), said.get("agent_id")
    if step is not None:
        told["step"] = count(step)
    if agent_id is not None:
        told["agent_id"] = name(agent_id)
    text = dumps(told)
    if len(text) > LARGEST_VALUE:
        raise Wrong("too large for a batch")
    return Mind(text, values, step, _time(said, "t", at))


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise Wrong("not a list")
    return value


def _optional(value: object) -> str:
    return "" if value is None else dumps(value)


def _fitting(message: EnvMade) -> EnvMade:
    if message.ByteSize() > LARGEST_VALUE:
        raise Wrong("too large for a batch")
    return message


HANDLERS: dict[str, Callable[[dict[str, Any], int, bytes], Event]] = {
    "config": _config,
    "step": _step,
    "steps": _steps,
    "episode": _episode,
    "metric": _metric,
    "metrics": _metrics,
    "env": _env,
    "reset": _reset,
    "artifact": _artifact,
    "progress": _progress,
    "mind": _mind,
    "evaluation": _evaluation,
}
