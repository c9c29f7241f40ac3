"""Reads the payload of a frame: steps of many envs as columns. Pure. Raises ProtocolError or KeyError."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import orjson

from runspine.frames import HEADER_SIZE, MAX_ROW_BYTES
from runspine.services.worker.protocol.fields import ProtocolError, count, dtype_of, flag, micros, name, slot

TERMINATED, TRUNCATED, RESET = 1, 2, 4
MAX_END_LENGTH = 100
MAX_HEADER_BYTES = 64 << 10
REWARDS = ("<f4", "<f8")
# Columns that a frame may have after the rewards and flags.
COLUMNS = ("action", "obs", "obs_hash", "reset_obs", "reset_hash")

Array = np.ndarray[Any, Any]


class GridColumn(NamedTuple):
    """Rows of bytes, [rows * whole slots, width], or [resets, width] in order of rows and slots."""

    dtype: str
    shape: list[int]
    data: Array


class GridEvent(NamedTuple):
    """Steps of consecutive slots: [rows, slots], and of the first `whole` slots the other columns."""

    slot: int
    # From each slot to the next.
    stride: int
    whole: int
    # How ids of episodes end.
    end: str
    global_step: int
    # Whether an env that ends is reset in the same step.
    same_step: bool
    first_at: int
    last_at: int
    # Of each slot where the block begins: the number of its episode, the step in it, and its return.
    numbers: Array
    steps: Array
    values: Array
    rewards: Array
    flags: Array
    columns: dict[str, GridColumn]


def read_header(payload: bytes) -> tuple[dict[str, Any], int]:
    """The header of a payload, and where its columns begin."""
    if len(payload) < HEADER_SIZE.size:
        raise ProtocolError("it has no header")
    (size,) = HEADER_SIZE.unpack_from(payload)
    end = HEADER_SIZE.size + size
    if end > len(payload) or size > MAX_HEADER_BYTES:
        raise ProtocolError("its header is longer than it may be")
    fields = orjson.loads(payload[HEADER_SIZE.size : end])
    if type(fields) is not dict or fields.get("type") not in ("grid", "steps"):
        raise ProtocolError("its type is not one of the protocol")
    return fields, end


def read_grid(fields: dict[str, Any], payload: bytes, start: int) -> GridEvent:
    """The columns of a payload. Every length is checked against the payload before anything is allocated."""
    first, slots, rows, whole = (slot(fields[field]) for field in ("slot", "slots", "rows", "whole"))
    stride = slot(fields.get("stride", 1))
    if not slots or not rows or not stride or whole > slots or first + slots * stride >= 1 << 32:
        raise ProtocolError("it states no slots or rows")
    described = fields["columns"]
    if type(described) is not list or not described or len(described) > 1 + len(COLUMNS):
        raise ProtocolError("it states no columns")
    given = [_described(each) for each in described]
    label, dtype, shape = given[0]
    if label != "reward" or dtype not in REWARDS or shape:
        raise ProtocolError("its first column is not the reward")
    columns = _Columns(payload, start)
    numbers, steps, values = (columns.take(slots, kind) for kind in ("<u4", "<u8", "<f8"))
    rewards = columns.take(rows * slots, dtype).reshape(rows, slots)
    flags = columns.take(rows * slots, "|u1").reshape(rows, slots)
    if flags.max() > RESET or steps.max() >= 1 << 62 or numbers.max() >= 1 << 31:
        raise ProtocolError("its flags or numbers are too large")
    same_step = flag(fields["same_step"])
    resets = int(((flags[:, :whole] & 3) != 0).sum()) if same_step else 0
    counts = {label: resets if label.startswith("reset_") else rows * whole for label in COLUMNS}
    found = {label: _column(columns, dtype, shape, counts[label]) for label, dtype, shape in given[1:]}
    if columns.left or len(found) != len(given) - 1:
        raise ProtocolError("its columns are not as long as it states")
    last = micros(fields["t1"])
    end = name(fields.get("end", ""))
    if len(end) > MAX_END_LENGTH:
        raise ProtocolError("ids of episodes are too long")
    return GridEvent(
        first, stride, whole, end, count(fields["global_step"]), same_step, micros(fields["t0"]), last,
        numbers, steps, values, rewards, flags, found,
    )  # fmt: skip


def _described(value: object) -> tuple[str, str, list[int]]:
    if type(value) is not list or len(value) != 3 or type(value[2]) is not list:
        raise ProtocolError("not a column")
    label, dtype, shape = value
    if label != "reward" and label not in COLUMNS:
        raise ProtocolError("it has an unknown column")
    return label, dtype_of(dtype), [slot(each) for each in shape]


def _column(columns: _Columns, dtype: str, shape: list[int], items: int) -> GridColumn:
    width = prod(shape) * int(dtype[2:])
    if not 0 < width <= MAX_ROW_BYTES:
        raise ProtocolError("a row is empty or does not fit into a batch")
    return GridColumn(dtype, shape, columns.take(items * width, "|u1").reshape(items, width))


class _Columns:
    """Takes columns from a payload, one after another."""

    def __init__(self, payload: bytes, start: int) -> None:
        self._payload, self._at = payload, start

    @property
    def left(self) -> int:
        return len(self._payload) - self._at

    def take(self, items: int, dtype: str) -> Array:
        size = items * int(dtype[2:])
        if size > self.left:
            raise ProtocolError("its columns are not as long as it states")
        column = np.frombuffer(self._payload, dtype, items, self._at)
        self._at += size
        return column
