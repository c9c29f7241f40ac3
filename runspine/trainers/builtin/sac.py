"""Soft actor-critic for continuous actions.

Haarnoja et al. 2018: two critics, a squashed Gaussian policy, and a temperature that is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from runspine.trainers.builtin.envs import Envs, EnvUnfitError
from runspine.trainers.builtin.packing import Array
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.replay_buffer import ReplayBuffer, Sample
from runspine.trainers.builtin.training import Training, main

LOG_EVERY = 100
LOG_STD_LOW, LOG_STD_HIGH = -5.0, 2.0


@dataclass
class Args:
    seed: int = 1
    """seed of everything random"""
    torch_deterministic: bool = True
    """use only deterministic algorithms of cuDNN"""
    cuda: bool = True
    """use a GPU if there is one"""
    require_cuda: bool = False
    """fail when there is no GPU"""

    env_id: str = "Pendulum-v1"
    """environment with continuous, bounded actions, any id that Gymnasium knows"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 1_000_000
    """environment steps of the whole run"""
    buffer_size: Annotated[int, Range(1)] = 1_000_000
    """transitions that the replay buffer holds"""
    gamma: Annotated[float, Range(0, 1)] = 0.99
    """discount of future rewards"""
    tau: Annotated[float, Range(0, 1)] = 0.005
    """how much of the critics the targets take over at each sync"""
    batch_size: Annotated[int, Range(1)] = 256
    """transitions in a sample"""
    learning_starts: Annotated[int, Range(1)] = 5_000
    """steps with random actions before learning begins"""
    policy_lr: Annotated[float, Range(0)] = 3e-4
    """step size of the policy's optimiser"""
    q_lr: Annotated[float, Range(0)] = 1e-3
    """step size of the critics' optimiser, and of the temperature's"""
    policy_frequency: Annotated[int, Range(1)] = 2
    """steps between two updates of the policy, which then gets as many at once"""
    target_network_frequency: Annotated[int, Range(1)] = 1
    """steps between two syncs of the targets"""
    alpha: Annotated[float, Range(0)] = 0.2
    """temperature: the worth of entropy; used when it is not learnt"""
    autotune: bool = True
    """learn the temperature"""

    checkpoint_every: Annotated[int, Range(0)] = 0
    """steps between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by steps alone"""
    video_every: Annotated[int, Range(0)] = 0
    """episodes of the first env between two clips; 0: no clips"""


class Critic(nn.Module):
    """Soft value of an action."""

    def __init__(self, obs: int, actions: int) -> None:
        super().__init__()
        self.net = body(obs + actions, 1)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        value: Tensor = self.net(torch.cat([obs, action], dim=1))
        return value.squeeze(1)


class Actor(nn.Module):
    """A Gaussian, squashed by tanh into the env's bounds."""

    scale: Tensor
    offset: Tensor

    def __init__(self, obs: int, space: spaces.Box) -> None:
        super().__init__()
        size = spaces.flatdim(space)
        self.net = body(obs, 2 * size)
        low, high = (torch.as_tensor(end, dtype=torch.float32).flatten() for end in (space.low, space.high))
        self.register_buffer("scale", (high - low) / 2)
        self.register_buffer("offset", (high + low) / 2)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """A sampled action and its log-probability."""
        mean, spread = self.net(obs).chunk(2, dim=1)
        log_std = LOG_STD_LOW + 0.5 * (LOG_STD_HIGH - LOG_STD_LOW) * (torch.tanh(spread) + 1)
        noise = torch.randn_like(mean)
        squashed = torch.tanh(mean + noise * log_std.exp())
        density = -0.5 * noise**2 - log_std - 0.5 * float(np.log(2 * np.pi))
        density = density - torch.log(self.scale * (1 - squashed**2) + 1e-6)
        return squashed * self.scale + self.offset, density.sum(dim=1)


def body(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs)
    )


class Learner:
    def __init__(self, args: Args, training: Training, envs: Envs) -> None:
        space = bounded(envs.actions, args.env_id)
        self.args, self.training, self.envs, self.space = args, training, envs, space
        obs, size, device = envs.obs_dim, spaces.flatdim(space), training.device
        self.actor = Actor(obs, space).to(device)
        self.critics = nn.ModuleList([Critic(obs, size), Critic(obs, size)]).to(device)
        self.targets = nn.ModuleList([Critic(obs, size), Critic(obs, size)]).to(device)
        self.targets.load_state_dict(self.critics.state_dict())
        self.temperature = Temperature(args, size).to(device)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=args.policy_lr, fused=True)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), lr=args.q_lr, fused=True)
        self.temperature_optimizer = torch.optim.Adam(self.temperature.parameters(), lr=args.q_lr, fused=True)
        self.buffer = ReplayBuffer(args.buffer_size, obs, np.zeros(size, np.float32), device=device)

    def begin(self) -> int:
        parts: dict[str, Any] = {
            "actor": self.actor,
            "critics": self.critics,
            "targets": self.targets,
            "temperature": self.temperature,
            "actor_optimizer": self.actor_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "temperature_optimizer": self.temperature_optimizer,
            "buffer": self.buffer,
        }
        return self.training.begin(self.envs, parts, weights=("actor", "critics", "targets"))

    def act(self, step: int) -> Array:
        if step <= self.args.learning_starts:
            low, high = self.space.low.ravel(), self.space.high.ravel()
            return self.training.random.numpy.uniform(low, high).astype(np.float32)
        with torch.no_grad():
            action, _ = self.actor(torch.from_numpy(self.envs.obs).to(self.training.device))
            return np.asarray(action[0].cpu().numpy())

    def step(self, step: int) -> None:
        """Take one action and store the transition."""
        obs, action = self.envs.obs[0], self.act(step)
        seen = self.envs.step(action[None])
        after = seen.final.get(0, seen.obs[0])
        # Only a terminal state has no future value; a truncated one has.
        self.buffer.add(obs, after, action, seen.rewards[0], seen.terminated[0])
        self.training.episodes(step, seen.episodes)

    def learn(self, step: int) -> dict[str, Tensor]:
        """Update the critics, and policy and temperature at their frequency."""
        args = self.args
        batch = self.buffer.sample(args.batch_size, self.training.random.numpy)
        losses = self.learn_critics(batch)
        if step % args.policy_frequency == 0:
            for _ in range(args.policy_frequency):
                losses |= self.learn_policy(batch)
        if step % args.target_network_frequency == 0:
            self.sync()
        return losses

    def learn_critics(self, batch: Sample) -> dict[str, Tensor]:
        with torch.no_grad():
            action, density = self.actor(batch.next_obs)
            worst = torch.min(*(target(batch.next_obs, action) for target in self.targets))
            future = worst - self.temperature.alpha * density
            goal = batch.rewards + self.args.gamma * (1 - batch.ended) * future
        first, second = (critic(batch.obs, batch.actions) for critic in self.critics)
        first_loss, second_loss = functional.mse_loss(first, goal), functional.mse_loss(second, goal)
        _descend(self.critic_optimizer, first_loss + second_loss)
        return {
            "losses/qf1_values": first.mean(),
            "losses/qf2_values": second.mean(),
            "losses/qf1_loss": first_loss,
            "losses/qf2_loss": second_loss,
            "losses/qf_loss": (first_loss + second_loss) / 2,
        }

    def learn_policy(self, batch: Sample) -> dict[str, Tensor]:
        self.critics.requires_grad_(False)  # fixed here: saves half of the backward pass
        action, density = self.actor(batch.obs)
        worst = torch.min(*(critic(batch.obs, action) for critic in self.critics))
        alpha = self.temperature.alpha
        loss = (alpha * density - worst).mean()
        _descend(self.actor_optimizer, loss)
        self.critics.requires_grad_(True)
        losses = {"losses/actor_loss": loss, "losses/alpha": alpha}
        if self.args.autotune:
            with torch.no_grad():
                _, density = self.actor(batch.obs)
            alpha_loss = self.temperature.loss(density)
            _descend(self.temperature_optimizer, alpha_loss)
            losses |= {"losses/alpha": self.temperature.alpha, "losses/alpha_loss": alpha_loss}
        return losses

    @torch.no_grad()
    def sync(self) -> None:
        for slow, fast in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
            slow.lerp_(fast, self.args.tau)


class Temperature(nn.Module):
    """Weight of the entropy, learnt so that the policy's entropy in nats is minus its number of actions."""

    def __init__(self, args: Args, actions: int) -> None:
        super().__init__()
        self.goal = -float(actions)
        start = 0.0 if args.autotune else float(np.log(max(args.alpha, 1e-12)))
        self.log_alpha = nn.Parameter(torch.tensor([start]))

    @property
    def alpha(self) -> Tensor:
        return self.log_alpha.detach().exp()

    def loss(self, density: Tensor) -> Tensor:
        return (-self.log_alpha.exp() * (density + self.goal)).mean()


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def bounded(space: spaces.Space[Any], env_id: str) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise EnvUnfitError(f"sac needs continuous actions, and those of {env_id} are {space}")
    if not space.is_bounded():
        raise EnvUnfitError(f"sac needs bounded actions, and those of {env_id} are {space}")
    return space


def train(args: Args) -> None:
    training = Training("sac", args)
    envs = Envs(args.env_id, args.env_kwargs, 1, args.seed, fork=training.fork)
    learner = Learner(args, training, envs)
    start = global_step = learner.begin()
    for global_step in range(start + 1, args.total_timesteps + 1):
        learner.step(global_step)
        if global_step > args.learning_starts:
            losses = learner.learn(global_step)
            if global_step % LOG_EVERY == 0:
                training.log(global_step, {name: value.item() for name, value in losses.items()})
        training.safe_point(global_step)
    training.finish(global_step)
    envs.close()


if __name__ == "__main__":
    main(Args, train, __doc__)
