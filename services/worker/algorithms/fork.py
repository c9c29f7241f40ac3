"""A run that begins in the middle of a recorded episode: reached by exact replay, on record itself.

The replayed steps become the first steps of the new episode, so that it can be replayed, exported and
forked like any other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from runspine.errors import RunspineError
from runspine.forking import other_env, record_of
from runspine.replay import Record, Replay, Stage, make_env
from runspine.sdk.identity import identity_of
from runspine.wire.v1.spec_pb2 import ForkPoint
from services.worker.algorithms.envs import Unfit, given_kwargs
from services.worker.forking import VARIABLE


class Standing(NamedTuple):
    """Where the replay has come to."""

    observation: Any
    steps: int
    value: float


class Fork:
    """Of the file with the spec's fork point. Played once in a scratch env. Raises Unfit."""

    def __init__(self, path: Path) -> None:
        try:
            self.point = ForkPoint.FromString(path.read_bytes())
            self.name = f"fork:{self.point.run_id}:{self.point.episode}"
            self.record = Record(record_of(self.point.record))
            verdict = Replay(self.record).verdict
        except (RunspineError, DecodeError, OSError) as error:
            raise Unfit(f"the episode to begin in cannot be replayed here: {error}") from error
        self.way = verdict.way
        if divergence := verdict.divergence:
            changed = ", ".join(str(each) for each in verdict.changed)
            why = f"; since then: {changed}" if changed else ""
            raise Unfit(f"{self.name} diverges on replay, so there is no such moment here: {divergence}{why}")
        if self.every and self.way.resets:
            raise Unfit(
                f"{self.name} comes out as recorded only {self.way}, and a later episode has had more of "
                "them: let the first episode alone begin there"
            )

    @property
    def every(self) -> bool:
        return self.point.every

    def env(self) -> Any:
        """As the record saw it."""
        return make_env(self.record.env, self.record.kwargs)

    def reach(self, env: Any) -> Standing:
        """Play the first steps in a recorded env. Raises Unfit."""
        tape = env.tape
        if self.way.resets:
            # They were not on record; the new episode says how many there were, as the old one did.
            for _ in range(self.way.resets):
                env.env.reset()
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
        # Whoever learns here has no name; a session names its actor before the next step.
        tape.hand_to("")
        return Standing(moment.observation, stage.at, value)


def fork_of(env_id: str, kwargs: str) -> Fork | None:
    """Where a training in this env begins, if the runner has said so. Raises Unfit."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    fork = Fork(Path(path))
    if why := other_env(fork.record, env_id, given_kwargs(kwargs)):
        raise Unfit(why)
    return fork
