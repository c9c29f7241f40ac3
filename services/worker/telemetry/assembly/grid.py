"""Splits steps of many envs into the blocks, episodes and resets of each slot. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from runspine.services.worker.protocol.grid import RESET, GridColumn, GridEvent
from runspine.wire.v1.telemetry_pb2 import Array, Episode, Reset, StepBlock

ENDS = 3
Numbers = np.ndarray[Any, Any]


class Segments(NamedTuple):
    """Consecutive steps of one episode in one slot, in the order of slots."""

    slot: list[int]
    # The first row, and how many there are.
    row: list[int]
    length: list[int]
    # Episodes of the slot that ended before in this block.
    ended_before: list[int]


class GridSplitter:
    """One block of steps, slot by slot."""

    def __init__(self, grid: GridEvent, global_step: int) -> None:
        self._grid, self._global_step = grid, global_step
        self._rows, self._slots = grid.flags.shape
        self._flags = np.ascontiguousarray(grid.flags.T)
        ends = (self._flags & ENDS) != 0
        # Ends in a slot up to each row, that row included.
        self._ended = np.cumsum(ends, axis=1, dtype=np.int64)
        self._segments = segments(self._flags, self._ended)
        self.steps = sum(self._segments.length)
        self._returns = returns(grid)

    def blocks(self) -> Iterator[StepBlock]:
        """The steps of each slot, as blocks of the archive."""
        grid, rows, slots = self._grid, self._rows, self._slots
        reward = np.ascontiguousarray(grid.rewards.T)
        rewards, item, dtype = reward.tobytes(), reward.itemsize, reward.dtype.str
        flags = self._flags.tobytes()
        columns = {name: self._slot_order(name) for name in grid.columns if not name.startswith("reset_")}
        span = (grid.last_at - grid.first_at) / max(1, rows - 1)
        for slot, row, count, before in zip(*self._segments, strict=True):
            at, end = slot * rows + row, slot * rows + row + count
            block = StepBlock(
                episode_id=self._id(slot, before),
                slot=grid.slot + slot * grid.stride,
                first_step=0 if before else int(grid.steps[slot]),
                count=count,
                reward=Array(dtype=dtype, data=rewards[at * item : end * item]),
                flags=flags[at:end],
                first_at=grid.first_at + int(row * span),
                last_at=grid.first_at + int((row + count - 1) * span),
                global_step=self._global_step + row * slots + slot,
            )
            if slot < grid.whole:
                _fill(block, columns, at, end)
            yield block

    def episodes(self) -> Iterator[Episode]:
        """The episodes that ended in the block."""
        grid, rows = self._grid, self._rows
        span = (grid.last_at - grid.first_at) / max(1, rows - 1)
        for slot, row, count, before in zip(*self._segments, strict=True):
            last = row + count - 1
            if flags := int(self._flags[slot, last]) & ENDS:
                yield Episode(
                    episode_id=self._id(slot, before),
                    slot=grid.slot + slot * grid.stride,
                    agent_id="",
                    steps=count + (0 if before else int(grid.steps[slot])),
                    ended_at=grid.first_at + int(last * span),
                    global_step=self._global_step + last * self._slots + slot + 1,
                    flags=flags,
                    **{"return": float(self._returns[last, slot])},
                )

    def resets(self) -> Iterator[Reset]:
        """How the episodes of whole slots began: with the reset of the next step, or of the same one."""
        grid = self._grid
        if not grid.same_step:
            column, rows = self._first("obs", "obs_hash"), (grid.flags[:, : grid.whole] == RESET)
            places = np.flatnonzero(rows.reshape(-1))
        else:
            column = self._first("reset_obs", "reset_hash")
            rows = (grid.flags[:, : grid.whole] & ENDS) != 0
            places = np.arange(int(rows.sum()))
        if column is None:
            return
        name, kept = column
        for (row, slot), place in zip(np.argwhere(rows).tolist(), places.tolist(), strict=True):
            number = int(grid.numbers[slot]) + int(self._ended[slot, row])
            where = grid.slot + slot * grid.stride
            began = Reset(episode_id=f"{where}-{number}{grid.end}", slot=where)
            began.ordinal, began.at = number, grid.first_at
            data = kept.data[place].tobytes()
            if name.endswith("hash"):
                began.observation_hash = data
            else:
                began.observation.CopyFrom(Array(dtype=kept.dtype, shape=kept.shape, data=data))
            yield began

    def _first(self, *names: str) -> tuple[str, GridColumn] | None:
        return next(((name, self._grid.columns[name]) for name in names if name in self._grid.columns), None)

    def _id(self, slot: int, ended_before: int) -> str:
        grid = self._grid
        return f"{grid.slot + slot * grid.stride}-{int(grid.numbers[slot]) + ended_before}{grid.end}"

    def _slot_order(self, name: str) -> tuple[GridColumn, bytes, int]:
        """A column with its rows slot by slot, and the bytes of a row."""
        column = self._grid.columns[name]
        width = column.data.shape[1]
        by_row = column.data.reshape(self._rows, self._grid.whole, width)
        return column, np.ascontiguousarray(by_row.transpose(1, 0, 2)).tobytes(), width


def _fill(block: StepBlock, columns: dict[str, tuple[GridColumn, bytes, int]], at: int, end: int) -> None:
    for name, (column, data, width) in columns.items():
        part = data[at * width : end * width]
        if name == "obs_hash":
            block.observation_hash = part
            continue
        target = block.action if name == "action" else block.observation
        target.dtype, target.data = column.dtype, part
        target.shape.extend(column.shape)


def segments(flags: Numbers, ended: Numbers) -> Segments:
    """Segments of flags [slots, rows]; `ended` counts the ends up to each of them."""
    rows = flags.shape[1]
    flat = flags.reshape(-1)
    steps = np.flatnonzero(flat != RESET)
    slots = steps // rows
    begins = np.ones(len(steps), bool)
    begins[1:] = (np.diff(steps) != 1) | (np.diff(slots) != 0) | ((flat[steps[:-1]] & ENDS) != 0)
    starts = np.flatnonzero(begins)
    first = steps[starts]
    before = ended.reshape(-1)[first] - ((flat[first] & ENDS) != 0)
    counts = np.diff(np.append(starts, len(steps)))
    return Segments(slots[starts].tolist(), (first % rows).tolist(), counts.tolist(), before.tolist())


def returns(grid: GridEvent) -> Numbers:
    """The return of each slot's episode after each row, [rows, slots]; summed in the order of the steps."""
    after = np.empty(grid.rewards.shape, np.float64)
    value = grid.values.copy()
    ended = (grid.flags & ENDS) != 0
    reset = grid.flags == RESET
    resets, ends = reset.any(axis=1).tolist(), ended.any(axis=1).tolist()
    with np.errstate(over="ignore", invalid="ignore"):
        for row, rewards in enumerate(grid.rewards):
            value += np.where(reset[row], 0.0, rewards) if resets[row] else rewards
            after[row] = value
            if ends[row]:
                value[ended[row]] = 0.0
    return after
