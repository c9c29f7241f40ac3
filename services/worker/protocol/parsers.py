"""Parsers of protocol lines, one for each type. They raise ProtocolError or KeyError. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from runspine.domain.artifact_kinds import TENSORBOARD, VIDEO
from runspine.domain.scores import figures_of
from runspine.services.worker.protocol.events import (
    ArtifactEvent,
    ArtifactsEvent,
    ConfigEvent,
    DroppedEvent,
    Event,
    HelloEvent,
    MetricsEvent,
    MindEvent,
    ProgressEvent,
    StepEvent,
    TurnEvent,
)
from runspine.services.worker.protocol.fields import (
    ProtocolError,
    array,
    count,
    dumps,
    encoded,
    flag,
    is_column,
    micros,
    name,
    number,
    prose,
    slot,
    texts,
)
from runspine.wire.v1.telemetry_pb2 import EnvMade, Episode, Reset, Score, StepBlock

# A value that cannot be split into rows must fit into a batch; a line with a larger one is a log line.
MAX_VALUE_BYTES = 200 << 10
# A line shorter than this cannot contain such a value, however its numbers are written.
SMALL_LINE_BYTES = MAX_VALUE_BYTES // 8
MAX_WRITER_LENGTH = 100
MAX_FRAME_SKIP = 1000
MAX_REASON_LENGTH = 1000
# Files in one line.
MAX_PATHS = 200
MIND_LISTS = ("goals", "beliefs", "intentions")


def _time(fields: dict[str, Any], field: str, at: int) -> int:
    value = fields.get(field)
    return at if value is None else micros(value)


def _where(fields: dict[str, Any]) -> tuple[str, int, str]:
    """Episode, slot and agent."""
    agent = fields.get("agent_id")
    return name(fields["episode_id"]), slot(fields.get("slot", 0)), "" if agent is None else name(agent)


def _actor(fields: dict[str, Any]) -> str:
    actor = fields.get("actor")
    return "" if actor is None else name(actor)


def _flags(terminated: object, truncated: object) -> int:
    return (1 if flag(terminated) else 0) | (2 if flag(truncated) else 0)


def _step(fields: dict[str, Any], at: int, line: bytes) -> StepEvent:
    episode_id, where, agent_id = _where(fields)
    action = fields["action"]
    if len(line) > SMALL_LINE_BYTES and len(dumps(action)) * 4 > MAX_VALUE_BYTES:
        raise ProtocolError("an action too large for a batch")
    return StepEvent(
        episode_id,
        where,
        agent_id,
        count(fields["step"]),
        action,
        number(fields["reward"]),
        _flags(fields["terminated"], fields["truncated"]),
        fields.get("obs"),
        _time(fields, "t", at),
        count(fields.get("global_step", 0)),
        len(line),
        _actor(fields),
    )


def _steps(fields: dict[str, Any], at: int, line: bytes) -> StepBlock:
    episode_id, where, agent_id = _where(fields)
    first, rows = count(fields["first"]), slot(fields["n"])
    flags, reward = encoded(fields["flags"]), array(fields["reward"], rows)
    if rows < 1 or len(flags) != rows or reward.shape or first + rows >= 1 << 63 or max(flags) > 3:
        raise ProtocolError("not as many steps as it states")
    last = _time(fields, "t1", at)
    block = StepBlock(
        episode_id=episode_id,
        slot=where,
        agent_id=agent_id,
        first_step=first,
        count=rows,
        reward=reward,
        flags=flags,
        first_at=_time(fields, "t0", last),
        last_at=last,
        global_step=count(fields.get("global_step", 0)),
        actor=_actor(fields),
    )
    _add_actions(block, fields["action"], rows)
    _add_observations(block, fields, rows)
    if len(line) > SMALL_LINE_BYTES and _widest(block) > MAX_VALUE_BYTES:
        raise ProtocolError("an action too large for a batch")
    return block


def _add_actions(block: StepBlock, fields: object, rows: int) -> None:
    if type(fields) is list:
        block.action_json.extend(texts(fields, rows))
    elif type(fields) is dict:
        block.action.CopyFrom(array(fields, rows))
    else:
        raise ProtocolError("no actions")


def _add_observations(block: StepBlock | Reset, fields: dict[str, Any], rows: int) -> None:
    """`obs` as a column or as JSON for each row; `obs_hash` in addition or instead."""
    obs, hashes = fields.get("obs"), fields.get("obs_hash")
    if hashes is not None:
        block.observation_hash = encoded(hashes)
        if len(block.observation_hash) != rows * 8:
            raise ProtocolError("not as many hashes as steps")
    if is_column(obs):
        block.observation.CopyFrom(array(obs, rows))
    elif isinstance(block, Reset):
        block.observation_json = "" if obs is None else dumps(obs)
    elif type(obs) is list:
        block.observation_json.extend(texts(obs, rows))
    elif obs is not None:
        raise ProtocolError("no observations")


def _widest(block: StepBlock) -> int:
    """Bytes of the largest action, which cannot be split."""
    return max([len(block.action.data) // block.count, *map(len, block.action_json)])


def _episode(fields: dict[str, Any], at: int, line: bytes) -> Episode:
    episode_id, where, agent_id = _where(fields)
    return Episode(
        episode_id=episode_id,
        slot=where,
        agent_id=agent_id,
        steps=count(fields["steps"]),
        ended_at=_time(fields, "t_end", at),
        global_step=count(fields.get("global_step", 0)),
        flags=_flags(fields.get("terminated", False), fields.get("truncated", False)),
        # `return` is a keyword in Python.
        **{"return": number(fields["return"])},
    )


def _metric(fields: dict[str, Any], at: int, line: bytes) -> MetricsEvent:
    return _points({name(fields["name"]): number(fields["value"])}, fields, at)


def _metrics(fields: dict[str, Any], at: int, line: bytes) -> MetricsEvent:
    values = fields["values"]
    if type(values) is not dict or not values:
        raise ProtocolError("no values")
    return _points({name(each): number(value) for each, value in values.items()}, fields, at)


def _points(values: dict[str, float], fields: dict[str, Any], at: int) -> MetricsEvent:
    step = fields.get("step")
    return MetricsEvent(values, None if step is None else count(step), _time(fields, "t", at))


def _env(fields: dict[str, Any], at: int, line: bytes) -> EnvMade:
    kwargs, versions = fields.get("kwargs") or {}, fields.get("versions") or {}
    if type(kwargs) is not dict or type(versions) is not dict:
        raise ProtocolError("not an object")
    return _fitting(
        EnvMade(
            slot=slot(fields.get("slot", 0)),
            env_id=name(fields["env_id"]),
            kwargs_json=dumps(kwargs),
            versions={name(package): name(version) for package, version in versions.items()},
            at=_time(fields, "t", at),
            entry_point=name(fields.get("entry_point") or ""),
            wrappers_json=_optional(fields.get("wrappers")),
            frame_skip=_frame_skip(fields.get("frame_skip", 1)),
            agents=name(fields.get("agents") or ""),
        )
    )


def _frame_skip(value: object) -> int:
    """Steps of an env for each action of the trainer; 0 when it is one."""
    skip = slot(value)
    if not 0 < skip <= MAX_FRAME_SKIP:
        raise ProtocolError("not a number of steps for each action")
    return skip if skip > 1 else 0


def _reset(fields: dict[str, Any], at: int, line: bytes) -> Reset:
    episode_id, where, agent_id = _where(fields)
    reset = Reset(
        episode_id=episode_id,
        slot=where,
        agent_id=agent_id,
        ordinal=count(fields["ordinal"]),
        seed_json=_optional(fields.get("seed")),
        options_json=_optional(fields.get("options")),
        rng_json=_optional(fields.get("rng")),
        state_json=_optional(fields.get("state")),
        at=_time(fields, "t", at),
    )
    if reset.ByteSize() > MAX_VALUE_BYTES:
        raise ProtocolError("too large for a batch")
    _add_observations(reset, fields, 1)
    return reset


def _config(fields: dict[str, Any], at: int, line: bytes) -> ConfigEvent:
    text = dumps(fields)
    if len(text) > MAX_VALUE_BYTES:
        raise ProtocolError("too large for a batch")
    return ConfigEvent(text)


def _artifact(fields: dict[str, Any], at: int, line: bytes) -> ArtifactEvent:
    if type(fields["kind"]) is not str or type(fields["path"]) is not str or len(line) > MAX_VALUE_BYTES:
        raise ProtocolError("not a file")
    # The collector writes it to disk as JSON.
    json.dumps(fields, ensure_ascii=False).encode()
    return ArtifactEvent(fields)


def _artifacts(fields: dict[str, Any], at: int, line: bytes) -> ArtifactsEvent:
    files = [
        {"kind": kind, "path": path} for kind in (VIDEO, TENSORBOARD) for path in _paths(fields.get(kind))
    ]
    url = fields.get("wandb_url") or ""
    if not (files or url) or type(url) is not str or len(line) > MAX_VALUE_BYTES:
        raise ProtocolError("no files and no wandb_url")
    json.dumps(files, ensure_ascii=False).encode()
    return ArtifactsEvent(files, url)


def _paths(value: object) -> list[str]:
    """No path, one, or a list of them."""
    paths = [value] if type(value) is str else _list(value or [])
    if len(paths) > MAX_PATHS or any(type(path) is not str for path in paths):
        raise ProtocolError("not paths")
    return paths


def _hello(fields: dict[str, Any], at: int, line: bytes) -> HelloEvent:
    protocol = slot(fields["protocol"])
    if not protocol:
        raise ProtocolError("versions begin with 1")
    return HelloEvent(protocol, name(fields.get("writer") or "")[:MAX_WRITER_LENGTH])


def _progress(fields: dict[str, Any], at: int, line: bytes) -> ProgressEvent:
    total = fields.get("total")
    return ProgressEvent(count(fields["step"]), None if total is None else count(total))


def _dropped(fields: dict[str, Any], at: int, line: bytes) -> DroppedEvent:
    return DroppedEvent(count(fields["count"]), prose(fields["reason"])[:MAX_REASON_LENGTH])


def _evaluation(fields: dict[str, Any], at: int, line: bytes) -> Score:
    returns = [number(each) for each in _list(fields["returns"])]
    lengths = [slot(each) for each in _list(fields.get("lengths") or [])]
    if not returns or (lengths and len(lengths) != len(returns)):
        raise ProtocolError("not as many lengths as returns")
    score = Score(
        batch=slot(fields.get("batch", 0)),
        digest=name(fields.get("digest", "")),
        env_id=name(fields.get("env_id", "")),
        algo=name(fields.get("algo", "")),
        seed=count(fields.get("seed", 0)),
        deterministic=flag(fields.get("deterministic", False)),
        returns=returns,
        lengths=lengths,
        seconds=number(fields.get("seconds", 0.0)),
        step=count(fields.get("step", 0)),
        at=_time(fields, "t", at),
        **figures_of(returns)._asdict(),
    )
    if score.ByteSize() > MAX_VALUE_BYTES:
        raise ProtocolError("too large for a batch")
    return score


def _mind(fields: dict[str, Any], at: int, line: bytes) -> MindEvent:
    lists = {field: [name(each) for each in _list(fields.get(field, []))] for field in MIND_LISTS}
    values = {f"mind/{field}": float(len(each)) for field, each in lists.items()}
    mind: dict[str, Any] = dict(lists)
    if fields.get("confidence") is not None:
        mind["confidence"] = values["mind/confidence"] = number(fields["confidence"])
    step, agent_id = fields.get("step"), fields.get("agent_id")
    if step is not None:
        mind["step"] = count(step)
    if agent_id is not None:
        mind["agent_id"] = name(agent_id)
    text = dumps(mind)
    if len(text) > MAX_VALUE_BYTES:
        raise ProtocolError("too large for a batch")
    return MindEvent(text, values, step, _time(fields, "t", at))


def _turn(fields: dict[str, Any], at: int, line: bytes) -> TurnEvent:
    turn: dict[str, Any] = {"actor": name(fields["actor"]), "answer": prose(fields["answer"])}
    turn["prompt"] = [_message(each) for each in _list(fields["prompt"])]
    turn |= {field: prose(fields[field]) for field in ("episode_id", "problem") if fields.get(field)}
    if fields.get("action") is not None:
        turn["action"] = fields["action"]
    turn["step"] = count(fields.get("step", 0))
    turn["seconds"] = number(fields.get("seconds", 0.0))
    text = dumps(turn)
    if len(text) > MAX_VALUE_BYTES:
        raise ProtocolError("too large for a batch")
    return TurnEvent(text, _time(fields, "t", at))


def _message(value: object) -> dict[str, str]:
    if type(value) is not dict:
        raise ProtocolError("not a message")
    return {"role": name(value["role"]), "content": prose(value["content"])}


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise ProtocolError("not a list")
    return value


def _optional(value: object) -> str:
    return "" if value is None else dumps(value)


def _fitting(message: EnvMade) -> EnvMade:
    if message.ByteSize() > MAX_VALUE_BYTES:
        raise ProtocolError("too large for a batch")
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
    "artifacts": _artifacts,
    "hello": _hello,
    "progress": _progress,
    "mind": _mind,
    "turn": _turn,
    "evaluation": _evaluation,
    "dropped": _dropped,
}
