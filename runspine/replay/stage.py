"""One env in which an episode is replayed and compared with its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.replay.divergence import Divergence
from runspine.replay.record import EpisodeRecord
from runspine.replay.verifier import ReplayVerifier, as_float
from runspine.replay.ways import Way, fitted
from runspine.sdk.episode_start import begin


@dataclass(slots=True)
class Moment:
    """Result of the env: at the reset (no step), or for the action of a step."""

    step: int | None
    observation: Any
    action: Any = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    # The first divergence, at this step or before.
    divergence: Divergence | None = None


class Stage:
    """Plays the recorded actions in an env, also beyond a divergence."""

    def __init__(
        self, record: EpisodeRecord, env: Any, way: Way, before: Sequence[EpisodeRecord] = ()
    ) -> None:
        self.record = record
        self.env = env
        self.way = way
        self.before = before
        self.verifier = ReplayVerifier(record)
        # Number of the next step.
        self.at = 0

    def begin(self) -> Moment:
        how = self.record.start
        try:
            if self.way.history:
                self._play_before()
            observation, info = begin(self.env, how, self.way.resets)
        except Exception as error:  # noqa: BLE001 - an env may raise anything
            return Moment(None, None, divergence=self.verifier.raised(None, error))
        return Moment(None, observation, info=info, divergence=self.verifier.began(observation))

    def moments(self) -> Iterator[Moment]:
        """Yield moments up to the last action, or until the env ends."""
        while self.at < self.record.length:
            moment = self.step()
            yield moment
            if moment.observation is None or (moment.divergence and (moment.terminated or moment.truncated)):
                return

    def step(self) -> Moment:
        number, action = self.at, self._action(self.record, self.at)
        try:
            result = self.env.step(action)
        except Exception as error:  # noqa: BLE001 - an env may raise anything
            self.at = self.record.length
            return Moment(number, None, action, divergence=self.verifier.raised(number, error))
        divergence = self.verifier.stepped(number, result)
        self.at += 1
        observation, reward, terminated, truncated, info = result
        return Moment(
            number, observation, action, as_float(reward), bool(terminated), bool(truncated), info, divergence
        )

    def verify(self) -> Divergence | None:
        """Replay to the first divergence, or to the end."""
        if self.begin().divergence is None:
            step, check, action, record = self.env.step, self.verifier.stepped, self._action, self.record
            try:
                for number in range(record.length):
                    if check(number, step(action(record, number))) is not None:
                        break
                    self.at = number + 1
            except Exception as error:  # noqa: BLE001 - an env may raise anything
                self.verifier.raised(self.at, error)
        return self.verifier.divergence

    def _play_before(self) -> None:
        """Play the episodes before this one, from one whose start is known."""
        for earlier in self.before:
            begin(self.env, earlier.start)
            for number in range(earlier.length):
                self.env.step(self._action(earlier, number))

    def _action(self, record: EpisodeRecord, number: int) -> Any:
        action = record.action(number, self.way.python)
        # Structured actions come from JSON and need the types of the space; numbers and texts do not.
        is_structure = type(action) is dict or type(action) is list
        return fitted(self.env.action_space, action) if is_structure else action
