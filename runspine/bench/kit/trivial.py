"""Envs that cost almost nothing, to measure what is around them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class TrivialEnv(gymnasium.Env[Any, Any]):
    """Four floats, two actions, episodes of a fixed length."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self._length = length
        self._at = 0
        self._observation = np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._at = 0
        return self._observation, {}

    def step(self, action: Any) -> Any:
        self._at += 1
        return self._observation, 1.0, self._at >= self._length, False, {}


class TrivialVector(VectorEnv[Any, Any, Any]):
    """Many of them in one array, which end together and are reset in the same step."""

    def __init__(self, count: int, length: int = 500) -> None:
        self.num_envs = count
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = (
            TrivialEnv.observation_space,
            TrivialEnv.action_space,
        )
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._observations = np.full((count, 4), 0.1, np.float32)
        self._rewards = np.ones(count)
        self._no, self._yes = np.zeros(count, bool), np.ones(count, bool)
        self._at, self._length = 0, length

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self._at = 0
        return self._observations, {}

    def step(self, actions: Any) -> Any:
        self._at += 1
        ended = self._no if self._at % self._length else self._yes
        return self._observations, self._rewards, ended, self._no, {}
