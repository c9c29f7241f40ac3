"""Experience replay: a ring buffer of transitions, sampled uniformly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from runspine.trainers.builtin.packing import Array, pack, unpack

COLUMNS = ("obs", "actions", "rewards", "ended")


@dataclass(frozen=True, slots=True)
class Sample:
    """A batch of transitions, as tensors. `ended` is 1.0 at terminal states."""

    obs: torch.Tensor
    next_obs: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    ended: torch.Tensor


class ReplayBuffer:
    def __init__(self, capacity: int, obs_dim: int, action: Array, device: torch.device) -> None:
        """`action` is an example. Memory is used as the buffer fills."""
        self.capacity = capacity
        self.size = self.position = 0
        self._device = device
        self._data: dict[str, Array] = {
            "obs": np.empty((capacity, obs_dim), np.float32),
            "next_obs": np.empty((capacity, obs_dim), np.float32),
            "actions": np.empty((capacity, *action.shape), action.dtype),
            "rewards": np.empty(capacity, np.float32),
            "ended": np.empty(capacity, np.float32),
        }

    def add(self, obs: Array, next_obs: Array, action: Array, reward: float, ended: bool) -> None:
        data, i = self._data, self.position
        data["obs"][i] = obs
        data["next_obs"][i] = next_obs
        data["actions"][i] = action
        data["rewards"][i] = reward
        data["ended"][i] = ended
        self.position = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, count: int, rng: np.random.Generator) -> Sample:
        rows = rng.integers(0, self.size, count)
        columns = {name: torch.from_numpy(data[rows]).to(self._device) for name, data in self._data.items()}
        return Sample(**columns)

    def state_dict(self) -> dict[str, Any]:
        """The filled part. A next observation is usually that of the next row: only the others are kept."""
        filled = {name: data[: self.size] for name, data in self._data.items()}
        odd = np.flatnonzero(_differ(filled["next_obs"], np.roll(filled["obs"], -1, axis=0)))
        return {
            "capacity": self.capacity,
            "position": self.position,
            "odd": pack(odd),
            "odd_next_obs": pack(filled["next_obs"][odd]),
            **{name: pack(filled[name]) for name in COLUMNS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["capacity"] != self.capacity:
            raise ValueError(f"the replay buffer held {state['capacity']} transitions, not {self.capacity}")
        columns = {name: unpack(state[name]) for name in COLUMNS}
        columns["next_obs"] = np.roll(columns["obs"], -1, axis=0)
        columns["next_obs"][unpack(state["odd"])] = unpack(state["odd_next_obs"])
        self.size = len(columns["obs"])
        self.position = state["position"]
        for name, column in columns.items():
            self._data[name][: self.size] = column


def _differ(left: Array, right: Array) -> Array:
    """Rows that differ bit for bit: 0.0 and -0.0 differ, and a NaN equals itself."""
    return np.asarray((left.view(np.uint32) != right.view(np.uint32)).any(axis=1))
