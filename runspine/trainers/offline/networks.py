"""Networks that the offline algorithms share, as in the papers: two layers of 256."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from runspine.trainers.builtin.envs import EnvUnfitError


def body(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs)
    )


class Actor(nn.Module):
    """Deterministic policy within the env's bounds."""

    scale: Tensor
    offset: Tensor

    def __init__(self, obs: int, space: spaces.Box) -> None:
        super().__init__()
        self.net = body(obs, spaces.flatdim(space))
        low, high = (torch.as_tensor(end, dtype=torch.float32).flatten() for end in (space.low, space.high))
        self.register_buffer("scale", (high - low) / 2)
        self.register_buffer("offset", (high + low) / 2)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.net(obs)) * self.scale + self.offset


class Critic(nn.Module):
    """Value of an action."""

    def __init__(self, obs: int, actions: int) -> None:
        super().__init__()
        self.net = body(obs + actions, 1)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        value: Tensor = self.net(torch.cat([obs, action], dim=1))
        return value.squeeze(1)


def pair(obs: int, actions: int) -> nn.ModuleList:
    return nn.ModuleList([Critic(obs, actions), Critic(obs, actions)])


def bounded(space: spaces.Space[Any], algo: str, env_id: str) -> spaces.Box:
    if not isinstance(space, spaces.Box) or not space.is_bounded():
        raise EnvUnfitError(
            f"{algo} needs continuous, bounded actions, and those of {env_id} are {space}: use bc"
        )
    return space


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, tau: float) -> None:
    """Move the target network towards the learnt one."""
    for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
        old.lerp_(new, tau)
