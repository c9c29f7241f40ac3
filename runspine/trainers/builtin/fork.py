"""Begins a run in the middle of a recorded episode, reached by exact replay and recorded again.

The replayed steps become the first steps of the new episode, so that it can be replayed, exported and
forked like any other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from runspine.errors import RunspineError
from runspine.play.fork import env_mismatch, record_of
from runspine.replay import EpisodeRecord, Replay, Stage, make_env
from runspine.sdk.identity import identity_of
from runspine.trainers.builtin.envs import EnvUnfitError, given_kwargs
from runspine.trainers.fork_file import VARIABLE
from runspine.wire.v1.spec_pb2 import ForkPoint


class Standing(NamedTuple):
    """State that the replay has reached."""

    observation: Any
    steps: int
    value: float


class Fork:
    """Fork point of a spec, read from its file and verified in a scratch env. Raises EnvUnfitError."""

    def __init__(self, path: Path) -> None:
        try:
            self.point = ForkPoint.FromString(path.read_bytes())
            self.name = f"fork:{self.point.run_id}:{self.point.episode}"
            self.record = EpisodeRecord(record_of(self.point.record))
            # Its own process, in the sandbox of a trainer: its envs may be of any module.
            verdict = Replay(self.record, make=make_env).verdict
        except (RunspineError, DecodeError, OSError) as error:
            raise EnvUnfitError(f"the episode to begin in cannot be replayed here: {error}") from error
        self.way = verdict.way
        if divergence := verdict.divergence:
            changed = ", ".join(str(each) for each in verdict.changed)
            why = f"; since then: {changed}" if changed else ""
            raise EnvUnfitError(
                f"{self.name} diverges on replay, so there is no such moment here: {divergence}{why}"
            )
        if self.every and self.way.resets:
            raise EnvUnfitError(
                f"{self.name} comes out as recorded only {self.way}, and a later episode has had more of "
                "them: let the first episode alone begin there"
            )

    @property
    def every(self) -> bool:
        return self.point.every

    def env(self) -> Any:
        """Make the env of the record."""
        return make_env(self.record.env, self.record.kwargs)

    def reach(self, env: Any) -> Standing:
        """Replay the recorded steps in a recorded env. Raises EnvUnfitError."""
        recorder = env.recorder
        if self.way.resets:
            # These resets are not recorded; the new episode records their number, as the old one did.
            for _ in range(self.way.resets):
                env.env.reset()
            recorder.introduce(lambda: identity_of(env.env))
            recorder.resets = self.way.resets
        recorder.set_actor(self.name)
        stage = Stage(self.record, env, self.way._replace(resets=0))
        moment = stage.begin()
        value = 0.0
        while moment.divergence is None and stage.at < self.record.length:
            moment = stage.step()
            value += moment.reward
        if moment.divergence is not None:
            raise EnvUnfitError(f"{self.name} diverges on replay: {moment.divergence}")
        # A learner is no named actor; a play session sets its actor before the next step.
        recorder.set_actor("")
        return Standing(moment.observation, stage.at, value)


def fork_of(env_id: str, kwargs: str) -> Fork | None:
    """Fork of a training in this env, if the runner has set one. Raises EnvUnfitError."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    fork = Fork(Path(path))
    if why := env_mismatch(fork.record, env_id, given_kwargs(kwargs)):
        raise EnvUnfitError(why)
    return fork
