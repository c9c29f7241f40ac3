"""Implicit Q-learning: values by expectiles of the data's actions, a policy by weighted cloning.

Kostrikov et al. 2021. No action outside the data is ever valued. Online, it acts as well, for fine-tuning
from a checkpoint.
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
from runspine.trainers.builtin.replay_buffer import Sample
from runspine.trainers.builtin.training import Stateful, main
from runspine.trainers.offline.networks import Actor, body, bounded, descend, follow, pair
from runspine.trainers.offline.online import explore
from runspine.trainers.offline.training import OfflineTraining

# Bounds of the weight of a transition.
MAX_WEIGHT = 100.0
MIN_LOG_WEIGHT = -30.0
LOG_STD_LOW, LOG_STD_HIGH = -5.0, 2.0


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
    """updates of the whole run; online, as many steps in the env"""
    online: bool = False
    """act in the env and learn from that too: fine-tuning, with a warm start"""
    gamma: Annotated[float, Range(0, 1)] = 0.99
    """discount of future rewards"""
    tau: Annotated[float, Range(0, 1)] = 0.005
    """how much the targets take over at each update"""
    batch_size: Annotated[int, Range(1)] = 256
    """transitions in a sample"""
    learning_rate: Annotated[float, Range(0)] = 3e-4
    """step size of all optimisers"""
    expectile: Annotated[float, Range(0, 1)] = 0.7
    """how far above the mean of the data's actions a state is valued"""
    beta: Annotated[float, Range(0)] = 3.0
    """how much more an action counts that is better than its state"""
    exploration_noise: Annotated[float, Range(0)] = 0.1
    """deviation of the noise on actions while fine-tuning, as a share of their range"""

    eval_every: Annotated[int, Range(1)] = 5_000
    """updates between two trials of the policy in its env"""
    eval_episodes: Annotated[int, Range(1)] = 10
    """episodes of a trial"""
    checkpoint_every: Annotated[int, Range(0)] = 0
    """updates between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by updates alone"""


class GaussianPolicy(Actor):
    """A Gaussian around the action, with one deviation for each of its numbers."""

    def __init__(self, obs: int, space: spaces.Box) -> None:
        super().__init__(obs, space)
        self.log_std = nn.Parameter(torch.zeros(spaces.flatdim(space)))

    def density(self, obs: Tensor, action: Tensor) -> Tensor:
        """Log-density of an action, up to a constant, in shares of the range."""
        log_std = self.log_std.clamp(LOG_STD_LOW, LOG_STD_HIGH)
        away = (action - self(obs)) / self.scale / log_std.exp()
        density: Tensor = (-0.5 * away**2 - log_std).sum(dim=1)
        return density


class Learner:
    def __init__(self, args: Args, trial: OfflineTraining) -> None:
        self.args, self.trial = args, trial
        space, device = bounded(trial.arena.actions, "iql", args.env_id), trial.training.device
        obs, size = trial.arena.obs_dim, spaces.flatdim(space)
        self.actor = GaussianPolicy(obs, space).to(device)
        self.value = body(obs, 1).to(device)
        self.critics, self.targets = pair(obs, size).to(device), pair(obs, size).to(device)
        self.targets.load_state_dict(self.critics.state_dict())
        rate = args.learning_rate
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=rate, fused=True)
        self.value_optimizer = torch.optim.Adam(self.value.parameters(), lr=rate, fused=True)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), lr=rate, fused=True)

    def begin(self) -> int:
        parts: dict[str, Stateful] = {
            "actor": self.actor,
            "value": self.value,
            "critics": self.critics,
            "targets": self.targets,
            "actor_optimizer": self.actor_optimizer,
            "value_optimizer": self.value_optimizer,
            "critic_optimizer": self.critic_optimizer,
        }
        return self.trial.begin(parts, weights=("actor", "value", "critics", "targets"))

    def learn(self) -> dict[str, Tensor]:
        batch = self.trial.data.sample(self.args.batch_size, self.trial.training.random.numpy)
        losses, advantage = self.learn_value(batch)
        losses |= self.learn_critics(batch)
        losses |= self.learn_policy(batch, advantage)
        follow(self.targets, self.critics, self.args.tau)
        return losses

    def learn_value(self, batch: Sample) -> tuple[dict[str, Tensor], Tensor]:
        with torch.no_grad():
            worst = torch.min(*(target(batch.obs, batch.actions) for target in self.targets))
        value = self.value(batch.obs).squeeze(1)
        above = worst - value
        weight = torch.where(above > 0, self.args.expectile, 1 - self.args.expectile)
        loss = (weight * above**2).mean()
        descend(self.value_optimizer, loss)
        return {"losses/value_loss": loss, "losses/values": value.mean()}, above.detach()

    def learn_critics(self, batch: Sample) -> dict[str, Tensor]:
        with torch.no_grad():
            after = self.value(batch.next_obs).squeeze(1)
            goal = batch.rewards + self.args.gamma * (1 - batch.ended) * after
        first, second = (critic(batch.obs, batch.actions) for critic in self.critics)
        loss = functional.mse_loss(first, goal) + functional.mse_loss(second, goal)
        descend(self.critic_optimizer, loss)
        return {"losses/qf_loss": loss, "losses/qf_values": first.mean()}

    def learn_policy(self, batch: Sample, advantage: Tensor) -> dict[str, Tensor]:
        # Smaller weights would be denormal numbers, which are a hundred times slower.
        weight = torch.exp((self.args.beta * advantage).clamp(min=MIN_LOG_WEIGHT)).clamp(max=MAX_WEIGHT)
        loss = -(weight * self.actor.density(batch.obs, batch.actions)).mean()
        descend(self.actor_optimizer, loss)
        return {"losses/actor_loss": loss, "losses/advantage": advantage.mean()}

    @torch.no_grad()
    def act(self, obs: Array) -> Array:
        action = self.actor(torch.from_numpy(obs).to(self.trial.training.device))
        return np.asarray(action[0].cpu().numpy())


def train(args: Args) -> None:
    trial = OfflineTraining("iql", args)
    learner = Learner(args, trial)
    step = learner.begin()
    if step == 0 and args.online:
        trial.evaluate(0, learner.act)  # where fine-tuning begins
    while step < args.total_timesteps:
        step += 1
        if args.online:
            explore(trial, learner.act, args.exploration_noise)
        trial.log_losses(step, learner.learn())
        if trial.due(step):
            trial.evaluate(step, learner.act)
        trial.training.safe_point(step)
    trial.finish(step)


if __name__ == "__main__":
    main(Args, train, __doc__)
