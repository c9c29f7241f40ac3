"""Values back out of what is on the wire, for comparing."""

from __future__ import annotations

import json
import struct
from typing import Any

from runspine.wire.v1.telemetry_pb2 import Array, Batch, StepBlock

FORMATS = {"|b1": "?", "|u1": "B", "<i8": "q", "<f4": "f", "<f8": "d"}


def values_of(column: Array, count: int) -> list[Any]:
    size = len(column.data) // struct.calcsize(f"<{FORMATS[column.dtype]}")
    flat: list[Any] = list(struct.unpack(f"<{size}{FORMATS[column.dtype]}", column.data))
    for width in reversed([count, *column.shape][1:]):
        flat = [flat[start : start + width] for start in range(0, len(flat), width)]
    assert len(flat) == count
    return flat


def actions_of(block: StepBlock) -> list[Any]:
    if block.HasField("action"):
        return values_of(block.action, block.count)
    return [json.loads(text) for text in block.action_json]


def observations_of(block: StepBlock) -> list[Any]:
    if block.HasField("observation"):
        return values_of(block.observation, block.count)
    return [json.loads(text) for text in block.observation_json]


def blocks_of(batches: list[Batch], episode: str, agent: str = "") -> list[StepBlock]:
    """In order, checked to be without a gap."""
    found = [block for batch in batches for block in batch.steps.blocks if block.episode_id == episode]
    found = sorted((block for block in found if block.agent_id == agent), key=lambda block: block.first_step)
    reached = 0
    for block in found:
        assert block.first_step == reached
        reached += block.count
    return found
