"""Assembles steps into complete episodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from runspine.sinks.columns import Values, actions_of, observations_of, rewards_of, rows_of


class EpisodeKey(NamedTuple):
    """Identity of an episode, unique within the attempt it began in."""

    attempt: int
    slot: int
    agent_id: str
    episode_id: str


@dataclass(slots=True)
class PartialEpisode:
    """An episode without gaps so far; values are arrays, or plain values without a fixed form."""

    key: EpisodeKey
    actions: list[Any] = field(default_factory=list)
    observations: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    flags: bytearray = field(default_factory=bytearray)
    bytes: int = 0
    # False as soon as a step has no observation.
    observed: bool = True

    @property
    def steps(self) -> int:
        return len(self.rewards)

    @property
    def ended(self) -> bool:
        return bool(self.flags and self.flags[-1])


class EpisodeGatherer:
    """Takes blocks of steps and yields complete episodes."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str, str], PartialEpisode] = {}
        # Episodes with a missing beginning or middle.
        self.torn = 0

    def add(self, attempt: int, block: Any) -> Iterator[PartialEpisode]:
        place = (block.slot, block.agent_id, block.episode_id)
        episode = self._open.get(place)
        if block.first_step == 0:
            episode = PartialEpisode(EpisodeKey(attempt, block.slot, block.agent_id, block.episode_id))
        elif episode is None or block.first_step != episode.steps:
            # A resumed attempt starts in the middle; anything else is a gap.
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


def _extend(episode: PartialEpisode, block: Any) -> None:
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
    """One item for each step: an array of the exact type, or the plain value."""
    return plain if rows is None else [np.asarray(row) for row in rows]
