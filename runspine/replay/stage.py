"""One env on which an episode is played again, and what it gives, checked against the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.replay.divergence import Divergence
from runspine.replay.record import Record
from runspine.replay.verifier import Verifier, as_float
from runspine.replay.ways import Way, fitted
from runspine.sdk.beginning import begin


@dataclass(slots=True)
class Moment:
    """What the env gave: at the reset (no step), or for the action of a step."""

    step: int | None
    observation: Any
    action: Any = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    # The first thing that was not as recorded, now or before.
    divergence: Divergence | None = None


class Stage:
    """Steps on while there are actions on record. After a divergence too, for whoever wants to look."""

    def __init__(self, record: Record, env: Any, way: Way, before: Sequence[Record] = ()) -> None:
        self.record = record
        self.env = env
        self.way = way
        self.before = before
        self.verifier = Verifier(record)
        # Steps taken: the number of the next one.
        self.at = 0

    def begin(self) -> Moment:
        how = self.record.beginning
        try:
            if self.way.history:
                self._play_before()
            observation, info = begin(self.env, how, self.way.resets)
        except Exception as error:  # noqa: BLE001 - an env may raise anything
            return Moment(None, None, divergence=self.verifier.raised(None, error))
        return Moment(None, observation, info=info, divergence=self.verifier.began(observation))

    def moments(self) -> Iterator[Moment]:
        """From here to the last action, or to where the env has ended."""
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
        """To the first divergence, or to the end; as fast as the env can."""
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
        """The episodes before this one, from one whose beginning is known on."""
        for earlier in self.before:
            begin(self.env, earlier.beginning)
            for number in range(earlier.length):
                self.env.step(self._action(earlier, number))

    def _action(self, record: Record, number: int) -> Any:
        action = record.action(number, self.way.python)
        # Structures come from JSON alone; a number or a text needs no space to be one.
        is_structure = type(action) is dict or type(action) is list
        return fitted(self.env.action_space, action) if is_structure else action
