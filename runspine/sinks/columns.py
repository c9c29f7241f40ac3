"""Telemetry batches as plain rows and arrays."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from runspine.wire.v1.telemetry_pb2 import Array, MetricBlock, StepBlock

Values = np.ndarray[Any, Any]


def points_of(block: MetricBlock) -> Iterator[tuple[float, int, int]]:
    """Value, step and time of each point; 0 where the batch has no steps or times."""
    n = len(block.values)
    steps = block.steps if len(block.steps) == n else [0] * n
    at = block.at if len(block.at) == n else [0] * n
    return zip(block.values, steps, at, strict=True)


def rows_of(array: Array, count: int) -> Values | None:
    """One row for each step; None when there is no data or it is not a NumPy array."""
    try:
        dtype = np.dtype(array.dtype)
    except TypeError:
        return None
    if not array.data or dtype.hasobject or not dtype.itemsize:
        return None
    values = np.frombuffer(array.data, dtype)
    shape = (count, *array.shape)
    return values.reshape(shape) if values.size == np.prod(shape, dtype=np.int64) else None


def actions_of(block: StepBlock) -> list[Any]:
    """One plain value for each step: a number, a list, or a parsed JSON value."""
    rows = rows_of(block.action, block.count)
    if rows is not None:
        return _plain(rows)
    return [json.loads(text) for text in block.action_json] or [None] * block.count


def observations_of(block: StepBlock) -> list[Any]:
    rows = rows_of(block.observation, block.count)
    if rows is not None:
        return _plain(rows)
    return [json.loads(text) for text in block.observation_json] or [None] * block.count


def rewards_of(block: StepBlock) -> list[float]:
    """Rewards as numbers; a vector reward is summed, as in charts."""
    rows = rows_of(block.reward, block.count)
    if rows is None:
        return [float("nan")] * block.count
    flat: list[float] = rows.reshape(block.count, -1).astype(np.float64).sum(axis=1).tolist()
    return flat


def times_of(block: StepBlock) -> list[int]:
    """Times of steps, evenly spaced between the first and the last."""
    times: list[int] = np.linspace(block.first_at, block.last_at, block.count).astype(np.int64).tolist()
    return times


def _plain(rows: Values) -> list[Any]:
    if rows.dtype.kind == "c":
        return [base64.b64encode(row.tobytes()).decode() for row in rows]
    plain: list[Any] = rows.tolist()
    return plain
