"""Clips of every so many episodes, filmed beside the training: it plays on while they are made."""

from __future__ import annotations

from typing import Any

import runspine
from services.worker.algorithms.envs import Envs, Episode
from services.worker.filming.crew import Crew, Take

FRAMES = 200


class Cadence:
    """The first episode of the first env, and every so many after it."""

    def __init__(self, crew: Crew, every: int, envs: Envs, run: runspine.Run) -> None:
        self.crew, self._every, self._envs, self._run = crew, every, envs, run
        self._count = 0

    def ended(self, slot: int, episode: Episode) -> None:
        """After the last step of an episode, before its env is reset."""
        if slot:
            return
        due = self._count % self._every == 0
        self._count += 1
        if due:
            whole = self._envs.envs[0].snapshot()["episode"]
            meta: dict[str, Any] = {
                "episode_id": self._run.episode_id(0, whole["number"]),
                "return": episode.total,
                "length": episode.length,
            }
            self.crew.film(Take(f"episode-{whole['number']}", whole, meta, self._run.steps))
