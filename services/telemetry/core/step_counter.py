"""The run's step counter and the time of each step, derived from its blocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core.arrays import numpy
from runspine.wire.v1.telemetry_pb2 import StepBlock


class PlacedBlock(NamedTuple):
    """A block of steps and its batch."""

    position: int
    attempt: int
    # Index of the block in its batch.
    order: int
    block: StepBlock
    # Steps of the attempt before the batch; None where its worker did not record that.
    before: int | None = None


class Counters(NamedTuple):
    """The run's counter at the first step of each block, whether the trainer reported it, and its stride."""

    counter: np.ndarray[Any, Any]
    reported: np.ndarray[Any, Any]
    stride: np.ndarray[Any, Any]


def block_counters(items: Sequence[PlacedBlock], before: Mapping[int, int]) -> Counters:
    """As the trainer reported it; else from the previous block; else the attempt's number of steps so far.

    Slots that are stepped together share the counter, so it may grow by more than one from one step of a
    slot to the next; consecutive blocks of the slot show by how much.
    """
    n = len(items)
    counter, reported, stride = np.zeros(n, np.uint64), np.zeros(n, np.uint8), np.ones(n, np.uint32)
    latest: dict[tuple[int, int, str], int] = {}
    known = [False] * n
    so_far = dict(before)
    # By attempt: how often batches were missing. Blocks on both sides of a gap show no stride.
    gaps: dict[int, int] = {}
    gap_of = [0] * n
    for index in _as_recorded(items):
        item = items[index]
        block, key = item.block, (item.attempt, item.block.slot, item.block.agent_id)
        if item.before is not None and not item.order and item.before != so_far.get(item.attempt, 0):
            gaps[item.attempt] = gaps.get(item.attempt, 0) + 1
            so_far[item.attempt] = item.before
        gap_of[index] = gaps.get(item.attempt, 0)
        earlier = latest.get(key)
        latest[key] = index
        if earlier is not None:
            stride[index] = stride[earlier]
        follows = earlier is not None and known[earlier] and gap_of[earlier] == gap_of[index]
        if block.global_step:
            counter[index], reported[index], known[index] = block.global_step, 1, True
            if earlier is not None and follows:
                stride[earlier] = stride[index] = _stride(items[earlier].block, int(counter[earlier]), block)
        elif earlier is not None and follows and _continues(items[earlier].block, block):
            grown = items[earlier].block.count * int(stride[earlier])
            counter[index], known[index] = (int(counter[earlier]) + grown) % (1 << 64), True
        else:
            counter[index] = so_far.get(item.attempt, 0)
        so_far[item.attempt] = so_far.get(item.attempt, 0) + block.count
    return Counters(counter, reported, stride)


def _as_recorded(items: Sequence[PlacedBlock]) -> Sequence[int]:
    """Their indexes in the order in which the trainers recorded them, where that is known."""
    places = range(len(items))
    if any(item.before is None for item in items):
        return places
    return sorted(places, key=lambda at: (items[at].attempt, items[at].before or 0, items[at].order))


def _stride(earlier: StepBlock, counter: int, block: StepBlock) -> int:
    grown = block.global_step - counter
    return min(max(1, round(grown / earlier.count)), 1 << 20) if earlier.count else 1


def _continues(earlier: StepBlock, block: StepBlock) -> bool:
    return earlier.episode_id == block.episode_id and earlier.first_step + earlier.count == block.first_step


def row_counters(table: pa.Table) -> np.ndarray[Any, Any]:
    """The run's counter in each row."""
    offset = numpy(table, "step") - numpy(table, "first_step")
    at_row: np.ndarray[Any, Any] = numpy(table, "counter") + offset * numpy(table, "stride").astype(np.uint64)
    return at_row


def row_times(table: pa.Table) -> np.ndarray[Any, Any]:
    """The time of each step, spread evenly between the first and the last of its block."""
    offset = (numpy(table, "step") - numpy(table, "first_step")).astype(np.float64)
    share = offset / np.maximum(numpy(table, "count").astype(np.float64) - 1, 1)
    at: np.ndarray[Any, Any] = numpy(table, "first_at") + (share * numpy(table, "span")).astype(np.int64)
    return at
