"""Normalises observations and rewards by running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from runspine.trainers.builtin.packing import Array, pack, unpack

CLIP = 10.0
TINY = 1e-8


class RunningMoments:
    """Mean and variance of all rows seen, updated a batch at a time."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean: Array = np.zeros(shape, np.float64)
        self.variance: Array = np.ones(shape, np.float64)
        self.count = 1e-4

    def update(self, rows: Array) -> None:
        """Merge the moments of a batch into the ones so far."""
        added, total = len(rows), self.count + len(rows)
        shift = rows.mean(axis=0, dtype=np.float64) - self.mean
        spread = rows.var(axis=0, dtype=np.float64) * added + self.variance * self.count
        self.variance = (spread + shift**2 * self.count * added / total) / total
        self.mean = self.mean + shift * added / total
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        return {"mean": pack(self.mean), "variance": pack(self.variance), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean, self.variance, self.count = (
            unpack(state["mean"]),
            unpack(state["variance"]),
            state["count"],
        )


class ObservationScale:
    """Scales observations to mean 0 and variance 1; passes them through when off."""

    def __init__(self, size: int, on: bool) -> None:
        self.on = on
        self.moments = RunningMoments((size,))

    def update(self, obs: Array) -> None:
        if self.on:
            self.moments.update(obs)

    def __call__(self, obs: Array) -> Array:
        if not self.on:
            return obs
        scaled = (obs - self.moments.mean) / np.sqrt(self.moments.variance + TINY)
        return np.clip(scaled, -CLIP, CLIP).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return self.moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments.load_state_dict(state)


class RewardScale:
    """Divides rewards by the deviation of the discounted return, so that values stay near 1."""

    def __init__(self, envs: int, gamma: float, on: bool) -> None:
        self.on = on
        self.gamma = gamma
        self.moments = RunningMoments(())
        self.begin(envs)

    def begin(self, envs: int) -> None:
        """Reset the returns at the start of episodes; the scale stays."""
        self.returns = np.zeros(envs, np.float64)

    def __call__(self, rewards: Array, done: Array) -> Array:
        if not self.on:
            return rewards
        self.returns = self.returns * self.gamma + rewards
        self.moments.update(self.returns)
        self.returns[done] = 0.0
        return np.clip(rewards / np.sqrt(self.moments.variance + TINY), -CLIP, CLIP)

    def state_dict(self) -> dict[str, Any]:
        return {"returns": pack(self.returns), "moments": self.moments.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments.load_state_dict(state["moments"])
        self.returns = unpack(state["returns"])
