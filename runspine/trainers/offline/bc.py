"""Behaviour cloning: imitate the data, or only its best episodes.

Pomerleau 1989. `top_fraction` keeps the episodes with the highest returns (10 % is known as BC-10 %).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from runspine.trainers.builtin.packing import Array
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.training import main
from runspine.trainers.offline.networks import Actor, body, bounded, descend
from runspine.trainers.offline.training import OfflineTraining


@dataclass
class Args:
    seed: int = 1
    """seed of everything random"""
    cuda: bool = True
    """use a GPU if there is one"""
    require_cuda: bool = False
    """fail when there is no GPU"""

    env_id: str = "Pendulum-v1"
    """environment of the dataset, in which the policy is tried"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 100_000
    """updates of the whole run"""
    batch_size: Annotated[int, Range(1)] = 256
    """transitions in a sample"""
    learning_rate: Annotated[float, Range(0)] = 3e-4
    """step size of the optimiser"""
    top_fraction: Annotated[float, Range(0, 1)] = 1.0
    """share of the episodes that is imitated, those with the highest returns"""

    eval_every: Annotated[int, Range(1)] = 5_000
    """updates between two trials of the policy in its env"""
    eval_episodes: Annotated[int, Range(1)] = 10
    """episodes of a trial"""
    checkpoint_every: Annotated[int, Range(0)] = 0
    """updates between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by updates alone"""


class Chooser(nn.Module):
    """Policy for discrete actions: log-odds of each in the data."""

    def __init__(self, obs: int, space: spaces.Discrete) -> None:
        super().__init__()
        self.net = body(obs, int(space.n))

    def forward(self, obs: Tensor) -> Tensor:
        logits: Tensor = self.net(obs)
        return logits


class Learner:
    def __init__(self, args: Args, trial: OfflineTraining) -> None:
        self.args, self.trial = args, trial
        obs, space, device = trial.arena.obs_dim, trial.arena.actions, trial.training.device
        self.actor: nn.Module
        if isinstance(space, spaces.Discrete):
            self.discrete, self.actor = True, Chooser(obs, space).to(device)
        else:
            self.discrete, self.actor = False, Actor(obs, bounded(space, "bc", args.env_id)).to(device)
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=args.learning_rate, fused=True)
        trial.data.keep_best(args.top_fraction)

    def begin(self) -> int:
        return self.trial.begin({"actor": self.actor, "optimizer": self.optimizer}, weights=("actor",))

    def learn(self) -> dict[str, Tensor]:
        batch = self.trial.data.sample(self.args.batch_size, self.trial.training.random.numpy)
        done = self.actor(batch.obs)
        if self.discrete:
            loss = functional.cross_entropy(done, batch.actions)
        else:
            loss = functional.mse_loss(done, batch.actions)
        descend(self.optimizer, loss)
        return {"losses/policy_loss": loss}

    @torch.no_grad()
    def act(self, obs: Array) -> Array:
        out = self.actor(torch.from_numpy(obs).to(self.trial.training.device))[0]
        return np.asarray((out.argmax() if self.discrete else out).cpu().numpy())


def train(args: Args) -> None:
    trial = OfflineTraining("bc", args)
    learner = Learner(args, trial)
    step = learner.begin()
    while step < args.total_timesteps:
        step += 1
        trial.log_losses(step, learner.learn())
        if trial.due(step):
            trial.evaluate(step, learner.act)
        trial.training.safe_point(step)
    trial.finish(step)


if __name__ == "__main__":
    main(Args, train, __doc__)
