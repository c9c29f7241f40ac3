"""Writes episodes in Minari's format. Needs minari and gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage


class MinariWriter:
    """Writes one dataset, episode by episode, with only the current episode in memory."""

    def __init__(self, folder: Path, env: gym.Env[Any, Any], dataset_id: str) -> None:
        place = folder / "data"
        place.mkdir(parents=True)
        self._storage = MinariStorage.new(
            place, env.observation_space, env.action_space, env.spec, jpeg_encoding=False
        )
        metadata = {
            "dataset_id": dataset_id,
            "algorithm_name": "runspine",
            "minari_version": minari.__version__,
        }
        self._storage.update_metadata(metadata)
        self._space = env.action_space
        self._seed: int | None = None
        self._rows: dict[str, list[Any]] = {}

    def begin(self, observation: Any, seed: int | None) -> None:
        self._seed = seed
        self._rows = {name: [] for name in ("actions", "rewards", "terminations", "truncations")}
        self._rows["observations"] = [np.asarray(observation)]

    def add(self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        for name, value in (
            ("actions", np.asarray(action, self._space.dtype)),
            ("observations", np.asarray(observation)),
            ("rewards", float(reward)),
            ("terminations", bool(terminated)),
            ("truncations", bool(truncated)),
        ):
            self._rows[name].append(value)

    def end(self) -> None:
        """Store the episode. One that did not end by itself counts as truncated."""
        if not self._rows["rewards"]:
            return
        if not (self._rows["terminations"][-1] or self._rows["truncations"][-1]):
            self._rows["truncations"][-1] = True
        arrays = {name: np.asarray(rows) for name, rows in self._rows.items()}
        self._storage.update_episodes([EpisodeBuffer(seed=self._seed, **arrays)])
