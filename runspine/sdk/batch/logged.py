"""Blocks of steps that a trainer records itself, as from the outputs of a `jax.lax.scan`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runspine.sdk.batch.autoreset import DISABLED, NEXT_STEP, SAME_STEP
from runspine.sdk.batch.grid import GridBlock, GridRecorder, block_of
from runspine.sdk.batch.slots import SlotRecorders

if TYPE_CHECKING:
    from runspine.sdk.run import Run

MODES = {"same_step": SAME_STEP, "next_step": NEXT_STEP, "disabled": DISABLED}


class LoggedBatches:
    """Recorders of `Run.log_steps`, by their first slot."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._recorders: dict[int, GridRecorder | SlotRecorders] = {}
        self._at: dict[int, float] = {}

    def add(self, batch: Mapping[str, Any], slot: int, autoreset: str) -> None:
        """Write a block. Raises ValueError when its arrays do not belong together."""
        if autoreset not in MODES:
            raise ValueError(f"autoreset {autoreset!r} is not one of: {', '.join(MODES)}")
        now, run = time.time(), self._run
        block = block_of(batch, 1 << 62, run.capture, self._at.get(slot, now), now)
        count = block.rewards.shape[1]
        recorder = self._recorders.get(slot)
        if recorder is None or recorder.count != count or recorder.mode != MODES[autoreset]:
            recorder = self._new(slot, count, MODES[autoreset])
        self._at[slot] = now
        if isinstance(recorder, GridRecorder):
            recorder.add_block(_whole(block, recorder.whole))
        else:
            _row_by_row(recorder, block)

    def _new(self, slot: int, count: int, mode: str) -> GridRecorder | SlotRecorders:
        run, before = self._run, self._recorders.get(slot)
        if before is not None:
            before.close()
        kind = GridRecorder if run.frames else SlotRecorders
        recorder = self._recorders[slot] = kind(run, slot, count, mode)
        return recorder


def _whole(block: GridBlock, whole: int) -> GridBlock:
    actions = None if block.actions is None else block.actions[:, :whole]
    kept = {name: column[:, :whole] for name, column in block.observations.items()}
    return block._replace(actions=actions, observations=kept)


def _row_by_row(recorder: SlotRecorders, block: GridBlock) -> None:
    """For a worker that reads no frames."""
    observed = next(iter(block.observations.values()), None)
    for row, rewards in enumerate(block.rewards):
        seen = [None] * len(rewards) if observed is None else observed[row]
        recorder.before_step([None] * len(rewards) if block.actions is None else block.actions[row])
        recorder.after_step(seen, rewards, block.terminated[row], block.truncated[row], {})
