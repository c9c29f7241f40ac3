"""The recorder that the launcher puts around the envs of `gymnasium.make`."""

from __future__ import annotations

import time
import weakref
from typing import Any

from runspine.instrument import evaluation
from runspine.instrument.record import record
from runspine.instrument.slots import SlotPlace
from runspine.sdk import lines
from runspine.sdk.episode import Episode
from runspine.sdk.recorded import RecordedEnv
from runspine.sdk.run import METRIC_BYTES
from runspine.sdk.slot_recorder import SlotRecorder


class ScriptRecorder(SlotRecorder):
    """Counts steps and episodes, and logs returns that the script does not log itself."""

    def __init__(self, place: SlotPlace) -> None:
        self.evaluation = place.evaluation
        if self.evaluation:
            evaluation.begun()
        super().__init__(record.run, place.slot)

    def _new_episode(self) -> Episode:
        episode = super()._new_episode()
        if self.evaluation:
            # The id distinguishes the script's own evaluation from its training.
            episode.id = f"eval-{episode.id}"
        return episode

    def _cut(self, now: float, flags: int) -> None:
        before = self.counted
        super()._cut(now, flags)
        record.counted(self.counted - before, 0, evaluation=self.evaluation)
        if not self.evaluation:
            record.report_progress(now or time.time())

    def _end(self, flags: int, now: float) -> None:
        super()._end(flags, now)
        record.counted(0, 1, evaluation=self.evaluation)
        if self.episode is None:
            return
        if self.evaluation:
            record.evaluated.append(self.episode)
            return
        for episode, step in record.unlogged_returns(self.episode, self.run.steps):
            self.run.pipe.write_later(METRIC_BYTES * 2, _statistics, episode, step, now)


def _statistics(episode: Episode, step: int, at: float) -> str:
    """Formatted after the episode's line, when its return is known."""
    values = {"charts/episodic_return": episode.value, "charts/episodic_length": float(episode.steps)}
    return lines.metrics(values, step, at)


class TappedEnv(RecordedEnv):
    """Gives its slot back and writes its last steps, also when the script drops it without `close`."""

    def __init__(self, env: Any, place: SlotPlace, ticket: int | None) -> None:
        recorder = ScriptRecorder(place)
        super().__init__(env, recorder)
        self._gone = weakref.finalize(self, _let_go, recorder, ticket)
        # At exit the run itself is flushed.
        self._gone.atexit = False

    def close(self) -> None:
        super().close()
        self._gone()

    def untap(self) -> None:
        """Record nothing more: the program records this env by itself."""
        if self.recording:
            self.recording = False
            self.step, self.reset = self.env.step, self.env.reset  # type: ignore[method-assign]
            self._gone()


def _let_go(recorder: ScriptRecorder, ticket: int | None) -> None:
    recorder.run.retire(recorder)
    if recorder.evaluation:
        evaluation.ended()
    if ticket is not None:
        record.ledger.give_back(ticket)
    record.leave_tally()
