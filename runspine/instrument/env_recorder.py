"""The recorder that the launcher puts around the envs of `gymnasium.make`."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

import gymnasium

from runspine.instrument import evaluation
from runspine.instrument.record import is_evaluation, record
from runspine.instrument.slots import SlotPlace
from runspine.sdk import lines
from runspine.sdk.episode import Episode
from runspine.sdk.identity import Identity
from runspine.sdk.recorded import RecordedEnv
from runspine.sdk.run import METRIC_BYTES
from runspine.sdk.slot_recorder import SlotRecorder

# Attributes in which wrappers of Gymnasium and Stable-Baselines3 keep how often they repeat an action.
FRAME_SKIPS = ("frame_skip", "_skip", "skip")
MAX_FRAME_SKIP = 64


class ScriptRecorder(SlotRecorder):
    """Counts steps and episodes, and logs returns that the script does not log itself."""

    def __init__(self, place: SlotPlace) -> None:
        # Whether the env was made for the script's own evaluation.
        self.evaluation = place.evaluation
        # Whether the episode in progress belongs to it: a script may make its envs in one place.
        self.evaluating = place.evaluation
        # Steps for each action of the script: a wrapper outside may repeat it.
        self.frame_skip = 1
        if self.evaluation:
            evaluation.begun()
        super().__init__(record.run, place.slot)

    def _position(self) -> int:
        return record.recorded_steps

    @property
    def aside(self) -> float:
        """Which share of the steps is no progress of the training."""
        return 1.0 if self.evaluating else 1 - 1 / self.frame_skip

    def _new_episode(self) -> Episode:
        episode = super()._new_episode()
        self.evaluating = self.evaluation or is_evaluation()
        record.leave_out(self, self.aside)
        if self.evaluating:
            # The id distinguishes the script's own evaluation from its training.
            episode.id = f"eval-{episode.id}"
        return episode

    def _cut(self, now: float, flags: int) -> None:
        before = self.counted
        super()._cut(now, flags)
        steps = self.counted - before
        record.counted(steps, 0, evaluation=self.evaluating)
        record.counted_aside(steps * self.aside)
        if not self.evaluating:
            record.report_progress(now or time.time())

    def _end(self, flags: int, now: float) -> None:
        super()._end(flags, now)
        record.counted(0, 1, evaluation=self.evaluating)
        if self.episode is None:
            return
        if self.evaluation:
            record.evaluated.append(self.episode)
        if self.evaluating:
            return
        for episode, step in record.unlogged_returns(self.episode, self._position()):
            self.run.pipe.write_later(METRIC_BYTES * 2, _statistics, episode, step, now)


def _statistics(episode: Episode, step: int, at: float) -> str:
    """Formatted after the episode's line, when its return is known."""
    values = {"charts/episodic_return": episode.value, "charts/episodic_length": float(episode.steps)}
    return lines.metrics(values, step, at)


class TappedEnv(RecordedEnv):
    """Gives its slot back and writes its last steps, also when the script drops it without `close`."""

    recorder: ScriptRecorder

    def __init__(self, env: Any, place: SlotPlace, ticket: int | None) -> None:
        recorder = ScriptRecorder(place)
        super().__init__(env, recorder)
        self._gone = weakref.finalize(self, _let_go, recorder, ticket)
        # At exit the run itself is flushed.
        self._gone.atexit = False

    def close(self) -> None:
        super().close()
        self._gone()

    def _identity(self) -> Identity:
        # Wrappers outside are resetting this env now.
        self.recorder.frame_skip = frame_skip_outside(self)
        return super()._identity()._replace(frame_skip=self.recorder.frame_skip)

    def untap(self) -> None:
        """Record nothing more: the program records this env by itself."""
        if self.recording:
            self.recording = False
            self.step, self.reset = self.env.step, self.env.reset  # type: ignore[method-assign]
            self._gone()


def frame_skip_outside(env: Any) -> int:
    """How often the wrappers that are resetting this env repeat an action; 1 when none does."""
    skip, seen = 1, [env]
    frame = sys._getframe(1)
    while frame is not None:
        wrapper = frame.f_locals.get("self")
        if isinstance(wrapper, gymnasium.Wrapper) and not any(wrapper is each for each in seen):
            seen.append(wrapper)
            found = [vars(wrapper).get(name) for name in FRAME_SKIPS]
            skip *= next((each for each in found if type(each) is int and 1 < each <= MAX_FRAME_SKIP), 1)
        frame = frame.f_back  # type: ignore[assignment]
    return skip


def _let_go(recorder: ScriptRecorder, ticket: int | None) -> None:
    recorder.run.retire(recorder)
    record.leave_out(recorder, 0.0)
    if recorder.evaluation:
        evaluation.ended()
    if ticket is not None:
        record.ledger.give_back(ticket)
    record.leave_tally()
