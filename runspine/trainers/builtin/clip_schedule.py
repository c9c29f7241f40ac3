"""Clips of every n-th episode, filmed in the background while training goes on."""

from __future__ import annotations

from typing import Any

import runspine
from runspine.trainers.builtin.envs import EndedEpisode, Envs
from runspine.trainers.filming.crew import FilmCrew, FilmJob

FRAMES = 200


class ClipSchedule:
    """Films the first episode of the first env, and every n-th after it."""

    def __init__(self, crew: FilmCrew, every: int, envs: Envs, run: runspine.Run) -> None:
        self.crew, self._every, self._envs, self._run = crew, every, envs, run
        self._count = 0

    def ended(self, slot: int, episode: EndedEpisode) -> None:
        """Called after the last step of an episode, before its env is reset."""
        if slot:
            return
        due = self._count % self._every == 0
        self._count += 1
        if due:
            whole = self._envs.envs[0].snapshot()["episode"]
            meta: dict[str, Any] = {
                "episode_id": self._run.ids.of(0, whole["number"]),
                "return": episode.total,
                "length": episode.length,
            }
            self.crew.film(FilmJob(f"episode-{whole['number']}", whole, meta, self._run.steps))
