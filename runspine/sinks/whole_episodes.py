"""Steps put together to whole episodes, as they come. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from runspine.sinks.columns import Values, actions_of, observations_of, rewards_of, rows_of


class Key(NamedTuple):
    """An episode: its name is unique in the attempt it began in."""

    attempt: int
    slot: int
    agent_id: str
    episode_id: str


@dataclass(slots=True)
class Gathered:
    """An episode of which every step is known so far; `rows` are arrays, or plain values without a form."""

    key: Key
    actions: list[Any] = field(default_factory=list)
    observations: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    flags: bytearray = field(default_factory=bytearray)
    bytes: int = 0
    # A step without its observation makes the episode useless for those who need them.
    observed: bool = True

    @property
    def steps(self) -> int:
        return len(self.rewards)

    @property
    def ended(self) -> bool:
        return bool(self.flags and self.flags[-1])


class Gathering:
    """Takes blocks of steps, gives episodes that have ended and are whole."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str, str], Gathered] = {}
        # Episodes of which the beginning or a piece in the middle was never told.
        self.torn = 0

    def add(self, attempt: int, block: Any) -> Iterator[Gathered]:
        place = (block.slot, block.agent_id, block.episode_id)
        episode = self._open.get(place)
        if block.first_step == 0:
            episode = Gathered(Key(attempt, block.slot, block.agent_id, block.episode_id))
        elif episode is None or block.first_step != episode.steps:
            # A resumed attempt goes on in the middle; anything else is a hole.
            self.torn += 1
            self._open.pop(place, None)
            return
        self._open[place] = episode
        _extend(episode, block)
        if episode.ended:
            del self._open[place]
            yield episode

    @property
    def unfinished(self) -> int:
        return len(self._open)


def _extend(episode: Gathered, block: Any) -> None:
    actions, observations = rows_of(block.action, block.count), rows_of(block.observation, block.count)
    episode.actions += _split(actions, actions_of(block))
    if observations is None and not block.observation_json:
        episode.observed = False
    else:
        episode.observations += _split(observations, observations_of(block))
    episode.rewards += rewards_of(block)
    episode.flags += block.flags or bytes(block.count)
    episode.bytes += len(block.action.data) + len(block.observation.data) + 9 * block.count


def _split(rows: Values | None, plain: list[Any]) -> list[Any]:
    """One item a step: an array of the exact type, or the plain value."""
    return plain if rows is None else [np.asarray(row) for row in rows]
