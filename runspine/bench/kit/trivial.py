"""An env that costs almost nothing, to measure what is around it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


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
