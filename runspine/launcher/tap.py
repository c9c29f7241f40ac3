"""The SDK's recorder of an env, as the launcher puts it around what `gymnasium.make` gives."""

from __future__ import annotations

import weakref
from typing import Any

from runspine.launcher import evaluation
from runspine.launcher.record import record
from runspine.launcher.slots import Place
from runspine.sdk import lines
from runspine.sdk.episode import Episode
from runspine.sdk.recorded import RecordedEnv
from runspine.sdk.run import METRIC_BYTES
from runspine.sdk.tape import Tape


class ScriptTape(Tape):
    """Counts for the launcher, and says a return that the script does not say itself."""

    def __init__(self, place: Place) -> None:
        self.evaluation = place.evaluation
        if self.evaluation:
            evaluation.begun()
        super().__init__(record.run, place.slot)

    def _new_episode(self) -> Episode:
        episode = super()._new_episode()
        if self.evaluation:
            # The id alone tells the script's own evaluation from its training.
            episode.id = f"eval-{episode.id}"
        return episode

    def _cut(self, now: float, flags: int) -> None:
        before = self.counted
        super()._cut(now, flags)
        record.counted(self.counted - before, 0, evaluation=self.evaluation)

    def _end(self, flags: int, now: float) -> None:
        super()._end(flags, now)
        record.counted(0, 1, evaluation=self.evaluation)
        if self.episode is None:
            return
        if self.evaluation:
            record.evaluated.append(self.episode)
            return
        for episode, step in record.must_tell(self.episode, self.run.steps):
            self.run.pipe.later(METRIC_BYTES * 2, _statistics, episode, step, now)


def _statistics(episode: Episode, step: int, at: float) -> str:
    """Made after the episode's own line, when its return is known."""
    values = {"charts/episodic_return": episode.value, "charts/episodic_length": float(episode.steps)}
    return lines.metrics(values, step, at)


class TappedEnv(RecordedEnv):
    """Gives its slot back, and its last steps, also when the script just drops it."""

    def __init__(self, env: Any, place: Place, ticket: int | None) -> None:
        tape = ScriptTape(place)
        super().__init__(env, tape)
        self._gone = weakref.finalize(self, _let_go, tape, ticket)
        # At exit the run itself is flushed.
        self._gone.atexit = False

    def close(self) -> None:
        super().close()
        self._gone()


def _let_go(tape: ScriptTape, ticket: int | None) -> None:
    tape.run.retire(tape)
    if tape.evaluation:
        evaluation.ended()
    if ticket is not None:
        record.ledger.give_back(ticket)
    record.leave_tally()
