"""Fork points: a recorded episode up to a step, small enough for a spec, and a training that begins there.

Rewards and actions are kept whole, observations as the hashes that replay compares.
Pure but for numpy.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from runspine.errors import InvalidError
from runspine.play.play_spec import kwargs_of
from runspine.replay.observations import NoObservations, TextObservations, observations_in
from runspine.replay.record import EpisodeRecord
from runspine.sdk.encoding import digest
from runspine.spec.plain import plain_value
from runspine.wire.v1.spec_pb2 import ForkPoint, RunSpec
from runspine.wire.v1.telemetry_pb2 import Array, GetEpisodeResponse, Reset, StepBlock

# A spec holds at most 256 KiB.
MAX_BYTES = 200 << 10
# A spec may come from anybody: bounds what its record unpacks to.
MAX_UNPACKED_BYTES = 64 << 20


def fork_point(run_id: str, episode: GetEpisodeResponse, step: int) -> ForkPoint:
    """Fork point of an episode at a step. Raises InvalidError with a remedy."""
    record, index = EpisodeRecord(episode), episode.entry.index
    where = f"episode {index} of run {run_id}"
    if len(record.agents) > 1:
        raise InvalidError(f"{where} has {len(record.agents)} agents: only an episode of one can be forked")
    if not episode.env.env_id:
        raise InvalidError(f"{where} has no env on record, so it cannot be replayed")
    if not 0 <= step <= record.length:
        raise InvalidError(
            f"{where} has {record.length:,} steps on record: fork it at 0 to {record.length:,}"
        )
    if step and record.flags[step - 1]:
        raise InvalidError(f"{where} ends with step {step:,}: fork it at {step - 1:,} or before")
    packed = zlib.compress(cut(episode, record, step).SerializeToString(deterministic=True), 9)
    if len(packed) > MAX_BYTES:
        raise InvalidError(
            f"{where} takes {len(packed) >> 10:,} KiB up to step {step:,}, "
            f"and a spec holds {MAX_BYTES >> 10}: fork it earlier"
        )
    return ForkPoint(run_id=run_id, episode=index, step=step, record=packed)


def start_at_fork(spec: RunSpec, point: ForkPoint, record: EpisodeRecord) -> None:
    """Make the spec a training that begins at the point, in the env of the record. Raises InvalidError."""
    kwargs = {name: plain_value(value) for name, value in spec.env_kwargs.items()}
    if why := env_mismatch(record, spec.env or record.env.env_id, kwargs):
        raise InvalidError(why)
    spec.env = record.env.env_id
    for name, value in kwargs_of(record).items():
        spec.env_kwargs[name].CopyFrom(value)
    spec.fork.CopyFrom(point)


def env_mismatch(record: EpisodeRecord, env_id: str, kwargs: Mapping[str, Any]) -> str:
    """Why a run with this env cannot begin in the record; empty when it can."""
    if env_id != record.env.env_id:
        return f"the episode to fork is in {record.env.env_id}, not in {env_id}: leave the env out"
    recorded = {name: plain_value(value) for name, value in kwargs_of(record).items()}
    for name, value in kwargs.items():
        if name not in recorded or recorded[name] != value:
            had = f"{recorded[name]!r}" if name in recorded else "a value that no run can set"
            return f"the episode to fork was recorded with {name} {had}, not {value!r}: leave env_kwargs out"
    return ""


def record_of(packed: bytes) -> GetEpisodeResponse:
    """Unpack the record of a fork point. Raises InvalidError."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, MAX_UNPACKED_BYTES)
        if not unpacker.eof:
            raise InvalidError("the record of the fork is cut short or too large")
        return GetEpisodeResponse.FromString(data)
    except (zlib.error, DecodeError) as error:
        raise InvalidError(f"the record of the fork cannot be read: {error}") from error


def cut(episode: GetEpisodeResponse, record: EpisodeRecord, step: int) -> GetEpisodeResponse:
    """The first steps of an episode."""
    short = GetEpisodeResponse(entry=episode.entry, env=episode.env, reset=_hashed_reset(episode.reset))
    short.entry.episode.steps = step
    at = 0
    for block in episode.blocks:
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
        short.observation_hash = _hashes(observations_in(reset), 1)
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
    seen = observations_in(block)
    if isinstance(seen, TextObservations):
        short.observation_json.extend(block.observation_json[:rows])
    elif block.HasField("observation"):
        short.observation_hash = _hashes(seen, rows)
    else:
        short.observation_hash = block.observation_hash[: rows * 8]
    return short


def _hashes(seen: NoObservations, rows: int) -> bytes:
    return b"".join(digest(seen.value(row)) for row in range(rows))


def _rows(column: Array, count: int, rows: int) -> Array:
    return Array(dtype=column.dtype, shape=column.shape, data=column.data[: len(column.data) // count * rows])
