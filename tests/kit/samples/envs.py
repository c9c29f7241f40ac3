"""Small envs with habits that a replay has to cope with. Registered when this module is imported."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Scalar(gym.Env[Any, Any]):
    """Takes a single float. Python's own and numpy's give other sums in single precision."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.random(2).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        self.state = (self.state * np.float32(0.9) + np.float32(1) * action).astype(np.float32)
        exact = np.float32(0.1) * action
        return self.state.copy(), float(exact), False, False, {}


class Structured(gym.Env[Any, Any]):
    """Dict in, dict out; refuses an action that is not of its space."""

    observation_space = spaces.Dict({"at": spaces.Box(-9, 9, (2,), np.float32), "side": spaces.Text(9)})
    action_space = spaces.Dict({"move": spaces.Box(-1, 1, (2,), np.float32), "jump": spaces.Discrete(3)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = self.np_random.random(2).astype(np.float32)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        assert action in self.action_space, action
        self.at = self.at + action["move"] * np.float32(1 + action["jump"])
        self.steps += 1
        return self._seen(), float(self.at.sum()), self.steps >= 8, False, {}

    def _seen(self) -> dict[str, Any]:
        return {"at": self.at.copy(), "side": "left" if self.at[0] < 0 else "right"}


class Shy(gym.Env[Any, Any]):
    """Computes otherwise when it knows that it will be seen."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012 - as Gymnasium has it
    observation_space = spaces.Box(0, 1, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, black: bool = False) -> None:
        self.render_mode = render_mode
        self.black = black

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(1), {}

    def step(self, action: Any) -> Any:
        if self.render_mode is not None:
            self.np_random.random()
        self.steps += 1
        return self.np_random.random(1) * (1 + int(action)), 0.0, self.steps >= 5, False, {}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((30, 41, 3), 0 if self.black else 40 * self.steps + 10, np.uint8)


class Bold(Shy):
    """Drawing itself moves the generator: it cannot be drawn and be the same."""

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.np_random.random(1) * (1 + int(action)), 0.0, self.steps >= 5, False, {}

    def render(self) -> Any:
        self.np_random.random()
        return super().render()


class Careless(Shy):
    """Draws on chance that nobody can seed."""

    chance = np.random.default_rng()

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.chance.random(1), 0.0, self.steps >= 5, False, {}


for kind in (Scalar, Structured, Shy, Bold, Careless):
    gym.register(f"Replay{kind.__name__}-v0", entry_point=kind)  # type: ignore[arg-type]
