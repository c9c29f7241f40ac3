"""Reads the payload of a frame: steps of one env as columns. Pure. Raises ProtocolError or KeyError."""

from __future__ import annotations

from math import prod
from typing import Any

from runspine.services.worker.protocol.fields import ProtocolError, count, dtype_of, micros, name, slot
from runspine.wire.v1.telemetry_pb2 import Array, StepBlock

MAX_FLAGS = 3
# A value that cannot be split into rows must fit into a batch.
MAX_ACTION_BYTES = 200 << 10
HASH_BYTES = 8
# Columns after the reward, in the order in which they may come.
ORDERS = (["action"], ["action", "obs"], ["action", "obs_hash"])


def read_steps(fields: dict[str, Any], payload: bytes, start: int) -> StepBlock:
    """The block of a payload. Every length is checked before a column is cut."""
    rows, first, flags = slot(fields["n"]), count(fields["first"]), slot(fields["flags"])
    if not rows or flags > MAX_FLAGS or first + rows >= 1 << 63:
        raise ProtocolError("it states no steps, or too many")
    described = fields["columns"]
    if type(described) is not list or not described or described[0] != ["reward", "<f8", []]:
        raise ProtocolError("its first column is not the reward")
    names, kinds = _described(described)
    if names[1:] not in ORDERS:
        raise ProtocolError("its columns are not those of steps")
    widths = [prod(shape) * int(dtype[2:]) for dtype, shape in kinds]
    if start + rows * sum(widths) != len(payload):
        raise ProtocolError("its columns are not as long as it states")
    if widths[1] > MAX_ACTION_BYTES or (names[-1] == "obs_hash" and widths[-1] != HASH_BYTES):
        raise ProtocolError("an action or a hash has the wrong size")
    parts = []
    for width in widths:
        parts.append(payload[start : start + rows * width])
        start += rows * width
    last = micros(fields["t1"])
    block = StepBlock(
        episode_id=name(fields["episode_id"]),
        slot=slot(fields["slot"]),
        first_step=first,
        count=rows,
        reward=Array(dtype="<f8", data=parts[0]),
        flags=bytes(rows - 1) + bytes((flags,)),
        first_at=micros(fields["t0"]),
        last_at=last,
        global_step=count(fields.get("global_step", 0)),
        actor=name(fields.get("actor", "")),
        agent_id=name(fields.get("agent_id", "")),
    )
    columns = [
        Array(dtype=kind[0], shape=kind[1], data=part) for kind, part in zip(kinds, parts, strict=True)
    ]
    block.action.CopyFrom(columns[1])
    if names[-1] == "obs":
        block.observation.CopyFrom(columns[2])
    elif names[-1] == "obs_hash":
        block.observation_hash = parts[2]
    return block


def _described(columns: list[Any]) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """Names of the columns, with the type and the shape of each."""
    names, kinds = [], []
    for each in columns:
        if type(each) is not list or len(each) != 3 or type(each[2]) is not list:
            raise ProtocolError("not a column")
        names.append(name(each[0]))
        kinds.append((dtype_of(each[1]), [slot(size) for size in each[2]]))
    return names, kinds
