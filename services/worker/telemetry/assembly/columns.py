"""Turns single steps into columns, and splits columns to fit a batch. Pure."""

from __future__ import annotations

import struct
from itertools import chain
from typing import Any

from runspine.services.worker.protocol.events import StepEvent
from runspine.services.worker.protocol.fields import dumps
from runspine.wire.v1.telemetry_pb2 import Array, StepBlock

# Integers up to here are exact as floats.
_EXACT = 1 << 53


def as_array(values: list[Any]) -> Array | None:
    """An array with one row for each value, or None when they differ in type or shape."""
    shape: list[int] = []
    flat = values
    while flat and type(flat[0]) is list:
        if set(map(type, flat)) != {list} or len(set(map(len, flat))) != 1:
            return None
        shape.append(len(flat[0]))
        flat = list(chain.from_iterable(flat))
    kinds = set(map(type, flat))
    if kinds == {bool}:
        return Array(dtype="|b1", shape=shape, data=bytes(flat))
    if kinds == {int}:
        try:
            return Array(dtype="<i8", shape=shape, data=struct.pack(f"<{len(flat)}q", *flat))
        except struct.error:
            return None
    if kinds == {float} or (kinds == {int, float} and all(_is_exact(value) for value in flat)):
        return Array(dtype="<f8", shape=shape, data=struct.pack(f"<{len(flat)}d", *flat))
    return None


def _is_exact(value: float) -> bool:
    return type(value) is float or -_EXACT <= value <= _EXACT


class StepRun:
    """Consecutive steps of one episode in one slot by one agent, as Python values."""

    __slots__ = ("_actions", "_first", "_flags", "_last_at", "_observations", "_rewards", "next")

    def __init__(self, first: StepEvent) -> None:
        self._first = first
        self._actions: list[Any] = []
        self._rewards: list[float] = []
        self._flags = bytearray()
        self._observations: list[Any] = []
        self._last_at = first.at
        self.next = first.step

    def fits(self, step: StepEvent) -> bool:
        """Whether a step continues this run of steps."""
        first = self._first
        same = (step.obs is None) == (first.obs is None) and step.actor == first.actor
        return same and step.step == self.next

    def add(self, step: StepEvent) -> None:
        self._actions.append(step.action)
        self._rewards.append(step.reward)
        self._flags.append(step.flags)
        if step.obs is not None:
            self._observations.append(step.obs)
        self._last_at = step.at
        self.next += 1

    def block(self) -> StepBlock:
        """The steps as columns."""
        first = self._first
        rewards = struct.pack(f"<{len(self._rewards)}d", *self._rewards)
        block = StepBlock(
            episode_id=first.episode_id,
            slot=first.slot,
            agent_id=first.agent_id,
            first_step=first.step,
            count=len(self._rewards),
            reward=Array(dtype="<f8", data=rewards),
            flags=bytes(self._flags),
            first_at=first.at,
            last_at=self._last_at,
            global_step=first.global_step,
            actor=first.actor,
        )
        if (actions := as_array(self._actions)) is not None:
            block.action.CopyFrom(actions)
        else:
            block.action_json.extend(map(dumps, self._actions))
        if not self._observations:
            return block
        if (observations := as_array(self._observations)) is not None:
            block.observation.CopyFrom(observations)
        else:
            block.observation_json.extend(map(dumps, self._observations))
        return block


class StepGatherer:
    """Gathers single steps into blocks."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str, str], StepRun] = {}
        self._done: list[StepRun] = []

    def add(self, step: StepEvent) -> None:
        key = (step.slot, step.agent_id, step.episode_id)
        run = self._open.get(key)
        if run is None or not run.fits(step):
            if run is not None:
                self._done.append(run)
            run = self._open[key] = StepRun(step)
        run.add(step)
        if step.flags:
            self._done.append(self._open.pop(key))

    def take(self) -> list[StepBlock]:
        """All gathered steps as blocks, in the order of each episode."""
        runs = [*self._done, *self._open.values()]
        self._done, self._open = [], {}
        return [run.block() for run in runs]


def split_block(block: StepBlock, max_bytes: int) -> list[StepBlock]:
    """Split a block between steps into parts of at most about `max_bytes`."""
    parts = -(-block.ByteSize() // max_bytes)
    if parts <= 1 or block.count == 1:
        return [block]
    rows = -(-block.count // parts)
    found = []
    for start in range(0, block.count, rows):
        piece = slice_block(block, start, min(start + rows, block.count))
        # Rows of JSON differ in size: a part with large ones may have to be split again.
        found += split_block(piece, max_bytes) if piece.ByteSize() > max_bytes else [piece]
    return found


def slice_block(block: StepBlock, start: int, end: int) -> StepBlock:
    """The rows from `start` to `end` as a block."""

    def at(row: int) -> int:
        return block.first_at + (block.last_at - block.first_at) * row // max(1, block.count - 1)

    return StepBlock(
        episode_id=block.episode_id,
        slot=block.slot,
        agent_id=block.agent_id,
        first_step=block.first_step + start,
        count=end - start,
        action=_rows(block.action, block.count, start, end) if block.HasField("action") else None,
        action_json=block.action_json[start:end],
        reward=_rows(block.reward, block.count, start, end),
        flags=block.flags[start:end],
        observation=_rows(block.observation, block.count, start, end)
        if block.HasField("observation")
        else None,
        observation_hash=block.observation_hash[start * 8 : end * 8],
        observation_json=block.observation_json[start:end],
        first_at=at(start),
        last_at=at(end - 1),
        # Only the first step's is known.
        global_step=0 if start else block.global_step,
        actor=block.actor,
    )


def _rows(column: Array, count: int, start: int, end: int) -> Array:
    size = len(column.data) // count
    return Array(dtype=column.dtype, shape=column.shape, data=column.data[start * size : end * size])
