"""A recorded episode up to a step, small enough to travel in a spec; and a training that begins there.

Rewards and actions stay as they are; of observations their hashes do, which is what replay compares.
Pure but for numpy.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from runspine.errors import Invalid
from runspine.plain import plain_value
from runspine.playing import kwargs_of
from runspine.replay.record import Record
from runspine.replay.seen import Nothing, Texts, seen_in
from runspine.sdk.text import digest
from runspine.wire.v1.spec_pb2 import ForkPoint, RunSpec
from runspine.wire.v1.telemetry_pb2 import Array, GetEpisodeResponse, Reset, StepBlock

# A spec has 256 KiB in all.
MOST_BYTES = 200 << 10
# Of what a record unpacks to: a spec may come from anybody.
MOST_UNPACKED = 64 << 20


def fork_point(run_id: str, said: GetEpisodeResponse, step: int) -> ForkPoint:
    """Raises Invalid with a way out."""
    record, index = Record(said), said.entry.index
    where = f"episode {index} of run {run_id}"
    if len(record.agents) > 1:
        raise Invalid(f"{where} has {len(record.agents)} agents: only an episode of one can be forked")
    if not said.env.env_id:
        raise Invalid(f"{where} does not say what env it was in, so it cannot be played again")
    if not 0 <= step <= record.length:
        raise Invalid(f"{where} has {record.length:,} steps on record: fork it at 0 to {record.length:,}")
    if step and record.flags[step - 1]:
        raise Invalid(f"{where} ends with step {step:,}: fork it at {step - 1:,} or before")
    packed = zlib.compress(cut(said, record, step).SerializeToString(deterministic=True), 9)
    if len(packed) > MOST_BYTES:
        raise Invalid(
            f"{where} takes {len(packed) >> 10:,} KiB up to step {step:,}, "
            f"and a spec holds {MOST_BYTES >> 10}: fork it earlier"
        )
    return ForkPoint(run_id=run_id, episode=index, step=step, record=packed)


def begin_at(spec: RunSpec, point: ForkPoint, record: Record) -> None:
    """Make it a training that begins at the point, in the env of the record. Raises Invalid."""
    kwargs = {name: plain_value(value) for name, value in spec.env_kwargs.items()}
    if why := other_env(record, spec.env or record.env.env_id, kwargs):
        raise Invalid(why)
    spec.env = record.env.env_id
    for name, value in kwargs_of(record).items():
        spec.env_kwargs[name].CopyFrom(value)
    spec.fork.CopyFrom(point)


def other_env(record: Record, env_id: str, kwargs: Mapping[str, Any]) -> str:
    """Why a run with such an env cannot begin in the record; empty when it can."""
    if env_id != record.env.env_id:
        return f"the episode to fork is in {record.env.env_id}, not in {env_id}: leave the env out"
    recorded = {name: plain_value(value) for name, value in kwargs_of(record).items()}
    for name, value in kwargs.items():
        if name not in recorded or recorded[name] != value:
            had = f"{recorded[name]!r}" if name in recorded else "nothing that a run can say"
            return f"the episode to fork was recorded with {name} {had}, not {value!r}: leave env_kwargs out"
    return ""


def record_of(packed: bytes) -> GetEpisodeResponse:
    """The record of a fork point. Raises Invalid."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, MOST_UNPACKED)
        if not unpacker.eof:
            raise Invalid("the record of the fork is cut short or too large")
        return GetEpisodeResponse.FromString(data)
    except (zlib.error, DecodeError) as error:
        raise Invalid(f"the record of the fork cannot be read: {error}") from error


def cut(said: GetEpisodeResponse, record: Record, step: int) -> GetEpisodeResponse:
    """The episode's first steps."""
    short = GetEpisodeResponse(entry=said.entry, env=said.env, reset=_hashed_reset(said.reset))
    short.entry.episode.steps = step
    at = 0
    for block in said.blocks:
        if block.first_step != at or not block.count or at >= step:
            continue
        rows = min(block.count, step - at)
        short.blocks.append(_block(block, rows))
        at += rows
    return short


def _hashed_reset(reset: Reset) -> Reset:
    short = Reset()
    short.CopyFrom(reset)
    if reset.HasField("observation"):
        short.observation_hash = _hashes(seen_in(reset), 1)
        short.ClearField("observation")
    return short


def _block(block: StepBlock, rows: int) -> StepBlock:
    short = StepBlock(
        episode_id=block.episode_id,
        slot=block.slot,
        agent_id=block.agent_id,
        first_step=block.first_step,
        count=rows,
        action=_rows(block.action, block.count, rows) if block.HasField("action") else None,
        action_json=block.action_json[:rows],
        reward=_rows(block.reward, block.count, rows),
        flags=block.flags[:rows],
        actor=block.actor,
    )
    seen = seen_in(block)
    if isinstance(seen, Texts):
        short.observation_json.extend(block.observation_json[:rows])
    elif block.HasField("observation"):
        short.observation_hash = _hashes(seen, rows)
    else:
        short.observation_hash = block.observation_hash[: rows * 8]
    return short


def _hashes(seen: Nothing, rows: int) -> bytes:
    return b"".join(digest(seen.value(row)) for row in range(rows))


def _rows(column: Array, count: int, rows: int) -> Array:
    return Array(dtype=column.dtype, shape=column.shape, data=column.data[: len(column.data) // count * rows])
