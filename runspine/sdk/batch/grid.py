"""Records the steps of many envs at once, as blocks of [steps, envs] in frames.

A step costs a few copies of whole arrays. Episodes are accounted for when a block is written: each frame
names the episode, its step and its return at which every slot begins, so that the worker can read it alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from runspine.frames import frame
from runspine.sdk.batch.autoreset import DISABLED, NEXT_STEP
from runspine.sdk.batch.observed import ObservationRows, captured
from runspine.sdk.batch.rows import Array, GridRows, RowsChangedError, copied, numbers, on_host, rows_for
from runspine.sdk.pipe import MAX_WAIT_SECONDS

if TYPE_CHECKING:
    from runspine.sdk.run import Run

MAX_ROWS = 512
MAX_BYTES = 2 << 20
TERMINATED, TRUNCATED, RESET = 1, 2, 4


class GridBlock(NamedTuple):
    """Rows of all slots: [rows, slots], and of the whole slots actions and observations."""

    rewards: Array
    terminated: Array
    truncated: Array
    actions: Array | None
    # Columns by name: `obs`, `obs_hash`, `reset_obs`, `reset_hash`.
    observations: dict[str, Array]
    began: float
    ended: float


class GridRecorder:
    """Recorder of consecutive slots. `rewards` is as long as there are steps that wait."""

    def __init__(self, run: Run, first: int, count: int, mode: str) -> None:
        self.run, self.count, self.mode = run, count, mode
        # Slots of a rank lie between those of the others.
        self.slot, self.stride = run.rank.slot(first), run.rank.total
        self.whole = min(count, run.whole_slots or count)
        self.rewards = range(0)
        # Steps that were written.
        self.counted = 0
        self.began = 0.0
        self.cutting = False
        self.failure = ""
        # Of each slot: the number of its episode, the steps in it and its return, and whether it has begun.
        self._numbers, self._steps = np.zeros(count, "<u4"), np.zeros(count, "<u8")
        self._values, self._begun = np.zeros(count, "<f8"), np.zeros(count, bool)
        # Whether the next row of a slot is a reset.
        self._resetting = np.zeros(count, bool)
        self._rows, self._max_rows = 0, MAX_ROWS
        self._columns: list[GridRows] = []
        self._action: Any = None
        self._observed = ObservationRows(self.whole, run.capture, run.note)
        run.add_recorder(self)

    @property
    def steps(self) -> int:
        return self.counted + len(self.rewards)

    def before_step(self, actions: Any) -> None:
        """Keep the actions; an env may change them."""
        if type(actions) is np.ndarray:
            self._action = actions[: self.whole].copy()
        elif not self.failure:
            one = hasattr(actions, "shape") or isinstance(actions, list)
            self._action = copied(actions[: self.whole]) if one else None

    def after_step(
        self, observations: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any
    ) -> None:
        """Keep the results of a step. Raises when they are not of `count` envs."""
        if self.failure:
            return
        values = (rewards, terminated, truncated, self._action)
        # The flusher must not write half a row.
        with self.run.lock:
            try:
                self._put(observations, values, infos)
            except RowsChangedError:
                self.cut()
                self._columns = []
                self._put(observations, values, infos)
            self._rows = rows = self._rows + 1
            self.rewards = range(rows * self.count)
            if rows == 1:
                self.began = time.time()
            elif rows >= self._max_rows or not 0 <= time.time() - self.began < MAX_WAIT_SECONDS:
                self.cut()

    def _put(self, observations: Any, values: tuple[Any, ...], infos: Any) -> None:
        if not self._columns:
            self._learn(observations, values)
        if len(self._columns) != 3 + (values[3] is not None):
            raise RowsChangedError
        row = self._rows
        for column, value in zip(self._columns, values, strict=False):
            column.put(row, value)
        self._observed.put(row, observations, infos)

    def begin(self, mask: Array | None = None) -> Array:
        """Envs were reset by a call: all, or those of the mask. Returns the numbers of their episodes."""
        self.cut()
        chosen = np.ones(self.count, bool) if mask is None else mask
        again = chosen & self._begun
        self._numbers[again] += 1
        self._begun[chosen], self._resetting[chosen] = True, False
        self._steps[chosen], self._values[chosen] = 0, 0.0
        return self._numbers

    def add_block(self, block: GridBlock) -> None:
        """Write whole blocks, at once; for trainers that have them."""
        self.cut()
        size = max(
            1, MAX_BYTES // max(1, sum(column.nbytes for column in _arrays(block)) // len(block.rewards))
        )
        for start in range(0, len(block.rewards), size):
            self._write(_piece(block, start, start + size))

    def cut(self, now: float = 0.0, flags: int = 0) -> None:
        """Write the rows so far."""
        with self.run.lock:
            if not self._rows or self.cutting:
                return
            self.cutting = True
            try:
                rows, self._rows, self.rewards = self._rows, 0, range(0)
                parts = [column.block(rows) for column in self._columns]
                kept = self._observed.block(rows, self._ended_rows(parts[1], parts[2]))
                actions = numbers(parts[3]) if len(parts) > 3 else None
                end = now or time.time()
                self._write(GridBlock(parts[0], parts[1], parts[2], actions, kept, self.began, end))
            finally:
                self.cutting = False

    def close(self) -> None:
        """Write what is left; the steps still count."""
        self.run.retire(self)

    def fail(self, error: BaseException) -> None:
        """Stop recording these slots; the run's log states why."""
        if not self.failure:
            self.failure = f"{type(error).__name__}: {error}"
            self._rows, self.rewards = 0, range(0)
            last = self.slot + (self.count - 1) * self.stride
            self.run.drop(f"slots {self.slot} to {last} are no longer recorded: {self.failure}")

    def forked(self) -> None:
        """Reset the state after a fork: the parent writes its rows."""
        self._rows, self.rewards, self.failure = 0, range(0), "forked: its steps are the parent's"

    def _ended_rows(self, terminated: Array, truncated: Array) -> Array | None:
        """Where whole slots ended and were reset in the same step; None when they are not."""
        if self.mode in (NEXT_STEP, DISABLED):
            return None
        ended: Array = (terminated | truncated)[:, : self.whole]
        return ended

    def _learn(self, observations: Any, values: tuple[Any, ...]) -> None:
        rewards, terminated, truncated, action = values
        rewarded = on_host(rewards)
        shapes = {tuple(value.shape) for value in (rewarded, on_host(terminated), on_host(truncated))}
        if shapes != {(self.count,)}:
            raise ValueError(f"rewards and ends of shapes {sorted(shapes)}, of {self.count} envs")
        row_bytes = self._observed.learn(observations, MAX_ROWS) + self.count * 9
        row_bytes += getattr(action, "nbytes", 0)
        self._max_rows = max(1, min(MAX_ROWS, MAX_BYTES // row_bytes))
        dtype = None if rewarded.dtype in (np.float32, np.float64) else np.float64
        self._columns = [rows_for(rewards, self._max_rows, dtype)]
        self._columns += [rows_for(value, self._max_rows, bool) for value in (terminated, truncated)]
        if action is not None:
            self._columns.append(rows_for(action, self._max_rows))

    def _write(self, block: GridBlock) -> None:
        terminated, truncated = block.terminated.astype(bool), block.truncated.astype(bool)
        done = terminated | truncated
        flags = terminated.astype(np.uint8) + TRUNCATED * truncated.astype(np.uint8)
        resets = np.zeros_like(done)
        if self.mode == NEXT_STEP:
            resets[0], resets[1:] = self._resetting, done[:-1]
            flags[resets], done = RESET, done & ~resets
        self._resetting = done[-1].copy()
        header, columns = self._header(block), [self._numbers.copy(), self._steps.copy(), self._values.copy()]
        columns += [numbers(block.rewards), flags]
        columns += [block.actions] if block.actions is not None else []
        columns += block.observations.values()
        steps = int(done.size - resets.sum())
        self._account(block.rewards, done, resets)
        self.counted += steps
        pipe = self.run.pipe
        if pipe.open:
            pipe.write_later(sum(column.nbytes for column in columns), frame, header, columns)
        else:
            pipe.count_missed()

    def _header(self, block: GridBlock) -> dict[str, Any]:
        named: dict[str, Array] = {"reward": block.rewards}
        named |= {} if block.actions is None else {"action": block.actions}
        return {
            "type": "grid",
            "slot": self.slot,
            "slots": self.count,
            "stride": self.stride,
            "whole": self.whole,
            "rows": len(block.rewards),
            "end": self.run.ids.end,
            "global_step": self.run.steps,
            "same_step": self.mode not in (NEXT_STEP, DISABLED),
            "columns": [_described(name, array) for name, array in (named | block.observations).items()],
            "t0": round(block.began, 6),
            "t1": round(block.ended, 6),
        }

    def _account(self, rewards: Array, done: Array, resets: Array) -> None:
        """Move every slot to where the next block begins."""
        rows, ends = len(done), done.any(axis=0)
        last = np.where(ends, rows - 1 - np.argmax(done[::-1], axis=0), -1)
        after = np.arange(rows)[:, None] > last
        summed = np.where(after & ~resets, rewards, 0.0).astype(np.float64)
        summed[0] += np.where(ends, 0.0, self._values)
        self._values = summed.sum(axis=0)
        self._steps = (after & ~resets).sum(axis=0).astype("<u8") + np.where(ends, 0, self._steps).astype(
            "<u8"
        )
        self._numbers += done.sum(axis=0).astype("<u4")
        self._begun = ~done[-1] | (self.mode not in (NEXT_STEP, DISABLED))


def _described(name: str, array: Array) -> list[Any]:
    lead = 1 if name.startswith("reset_") else 2
    return [name, array.dtype.str, list(array.shape[lead:])]


def _arrays(block: GridBlock) -> list[Array]:
    own = [block.rewards, block.terminated, block.truncated]
    return own + ([] if block.actions is None else [block.actions]) + list(block.observations.values())


def _piece(block: GridBlock, start: int, end: int) -> GridBlock:
    actions = None if block.actions is None else block.actions[start:end]
    kept = {name: column[start:end] for name, column in block.observations.items()}
    whole = (block.rewards[start:end], block.terminated[start:end], block.truncated[start:end])
    return GridBlock(*whole, actions, kept, block.began, block.ended)


def block_of(batch: Mapping[str, Any], whole: int, capture: str, began: float, ended: float) -> GridBlock:
    """A block of [steps, envs] arrays of numpy, torch or jax. Raises ValueError naming the array."""
    rewards = on_host(batch["reward"])
    if rewards.ndim != 2:
        raise ValueError(f"reward has shape {rewards.shape}, not [steps, envs]")
    rewards = rewards if rewards.dtype in (np.float32, np.float64) else rewards.astype(np.float64)
    ends = [on_host(batch[name]) if name in batch else np.zeros(rewards.shape, bool) for name in ENDS]
    others = {
        name: on_host(batch[name])[:, :whole] for name in ("action", "obs") if batch.get(name) is not None
    }
    for name, array in [*zip(ENDS, ends, strict=True), *others.items()]:
        if array.shape[0] != len(rewards) or (name in ENDS and array.shape != rewards.shape):
            raise ValueError(f"{name} has shape {array.shape}, with rewards of {rewards.shape}")
    kept = {name: numbers(array) for name, array in others.items()}
    actions, observed = kept.pop("action", None), kept.pop("obs", None)
    return GridBlock(rewards, ends[0], ends[1], actions, captured(observed, capture), began, ended)


ENDS = ("terminated", "truncated")
