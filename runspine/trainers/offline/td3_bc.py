"""TD3+BC: the policy maximises the value and stays near the data.

Fujimoto & Gu 2021: TD3 with a term of behaviour cloning in the policy's loss. Online, it acts as well and
the term fades, for fine-tuning from a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional

from runspine.trainers.builtin.packing import Array
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.replay_buffer import Sample
from runspine.trainers.builtin.training import Stateful, main
from runspine.trainers.offline.networks import Actor, bounded, descend, follow, pair
from runspine.trainers.offline.online import explore
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
    """step size of both optimisers"""
    alpha: Annotated[float, Range(0)] = 2.5
    """weight of the value against staying near the data"""
    online_alpha: Annotated[float, Range(0)] = 2.5
    """the same while fine-tuning"""
    policy_noise: Annotated[float, Range(0)] = 0.2
    """deviation of the noise on target actions, as a share of their range"""
    noise_clip: Annotated[float, Range(0)] = 0.5
    """bound of that noise"""
    policy_frequency: Annotated[int, Range(1)] = 2
    """updates of the critics for one of the policy"""
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


class Learner:
    def __init__(self, args: Args, trial: OfflineTraining) -> None:
        self.args, self.trial = args, trial
        space, device = bounded(trial.arena.actions, "td3_bc", args.env_id), trial.training.device
        obs, size = trial.arena.obs_dim, spaces.flatdim(space)
        self.actor, self.slow_actor = Actor(obs, space).to(device), Actor(obs, space).to(device)
        self.critics, self.targets = pair(obs, size).to(device), pair(obs, size).to(device)
        self.slow_actor.load_state_dict(self.actor.state_dict())
        self.targets.load_state_dict(self.critics.state_dict())
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=args.learning_rate, fused=True)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), lr=args.learning_rate, fused=True)
        self.alpha = args.online_alpha if args.online else args.alpha

    def begin(self) -> int:
        parts: dict[str, Stateful] = {
            "actor": self.actor,
            "slow_actor": self.slow_actor,
            "critics": self.critics,
            "targets": self.targets,
            "actor_optimizer": self.actor_optimizer,
            "critic_optimizer": self.critic_optimizer,
        }
        return self.trial.begin(parts, weights=("actor", "slow_actor", "critics", "targets"))

    def learn(self, step: int) -> dict[str, Tensor]:
        batch = self.trial.data.sample(self.args.batch_size, self.trial.training.random.numpy)
        losses = self.learn_critics(batch)
        if step % self.args.policy_frequency == 0:
            losses |= self.learn_policy(batch)
            follow(self.slow_actor, self.actor, self.args.tau)
            follow(self.targets, self.critics, self.args.tau)
        return losses

    def learn_critics(self, batch: Sample) -> dict[str, Tensor]:
        args, actor = self.args, self.slow_actor
        with torch.no_grad():
            noise = torch.randn_like(batch.actions) * args.policy_noise
            noise = noise.clamp(-args.noise_clip, args.noise_clip) * actor.scale
            low, high = actor.offset - actor.scale, actor.offset + actor.scale
            action = torch.clamp(actor(batch.next_obs) + noise, low, high)
            worst = torch.min(*(target(batch.next_obs, action) for target in self.targets))
            goal = batch.rewards + args.gamma * (1 - batch.ended) * worst
        first, second = (critic(batch.obs, batch.actions) for critic in self.critics)
        loss = functional.mse_loss(first, goal) + functional.mse_loss(second, goal)
        descend(self.critic_optimizer, loss)
        return {"losses/qf_loss": loss, "losses/qf_values": first.mean()}

    def learn_policy(self, batch: Sample) -> dict[str, Tensor]:
        action = self.actor(batch.obs)
        value = self.critics[0](batch.obs, action)
        # Normalised by the size of the values, so that alpha means the same in every env.
        weight = self.alpha / value.abs().mean().detach().clamp(min=1e-6)
        near = functional.mse_loss(action / self.actor.scale, batch.actions / self.actor.scale)
        loss = near - weight * value.mean()
        descend(self.actor_optimizer, loss)
        return {"losses/actor_loss": loss, "losses/bc_loss": near}

    @torch.no_grad()
    def act(self, obs: Array) -> Array:
        action = self.actor(torch.from_numpy(obs).to(self.trial.training.device))
        return np.asarray(action[0].cpu().numpy())


def train(args: Args) -> None:
    trial = OfflineTraining("td3_bc", args)
    learner = Learner(args, trial)
    step = learner.begin()
    if step == 0 and args.online:
        trial.evaluate(0, learner.act)  # where fine-tuning begins
    while step < args.total_timesteps:
        step += 1
        if args.online:
            explore(trial, learner.act, args.exploration_noise)
        trial.log_losses(step, learner.learn(step))
        if trial.due(step):
            trial.evaluate(step, learner.act)
        trial.training.safe_point(step)
    trial.finish(step)


if __name__ == "__main__":
    main(Args, train, __doc__)
