"""A session that begins in the middle of a recorded episode: reached by exact replay, on record itself.

The replayed steps become the first steps of the new episode, so that it can be replayed, exported and
forked like any other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from runspine.errors import RunspineError
from runspine.forking import record_of
from runspine.replay import Record, Replay, Stage, make_env
from runspine.sdk.identity import identity_of
from services.worker.algorithms.envs import Unfit


class Standing(NamedTuple):
    """Where the replay has come to."""

    observation: Any
    steps: int
    value: float


class Fork:
    """Of the file that the spec's fork point was written to. Raises Unfit."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        try:
            self.record = Record(record_of(path.read_bytes()))
            self.replay = Replay(self.record)
            self.way = self.replay.verdict.way
        except RunspineError as error:
            raise Unfit(f"{name} cannot be replayed here: {error}") from error
        if divergence := self.replay.verdict.divergence:
            changed = ", ".join(str(each) for each in self.replay.verdict.changed)
            why = f"; since then: {changed}" if changed else ""
            raise Unfit(f"{name} diverges on replay, so there is no such moment here: {divergence}{why}")

    def env(self) -> Any:
        """As the record saw it, with the resets behind it that the way asks for."""
        env = make_env(self.record.env, self.record.kwargs)
        for _ in range(self.way.resets):
            env.reset()
        return env

    def reach(self, env: Any) -> Standing:
        """Play the first steps in a recorded env. Raises Unfit."""
        tape = env.tape
        if self.way.resets:
            # They were not on record; the new episode says how many there were, as the old one did.
            tape.introduce(lambda: identity_of(env.env))
            tape.resets = self.way.resets
        tape.hand_to(self.name)
        stage = Stage(self.record, env, self.way._replace(resets=0))
        moment = stage.begin()
        value = 0.0
        while moment.divergence is None and stage.at < self.record.length:
            moment = stage.step()
            value += moment.reward
        if moment.divergence is not None:
            raise Unfit(f"{self.name} diverges on replay: {moment.divergence}")
        return Standing(moment.observation, stage.at, value)
