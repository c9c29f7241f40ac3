"""Deep Q-learning for discrete actions.

Mnih et al. 2015: a network of action values, a replay buffer, a target network that follows slowly.
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
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.replay_buffer import ReplayBuffer
from runspine.trainers.builtin.training import Training, main

LOG_EVERY = 100  # updates


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

    env_id: str = "CartPole-v1"
    """environment with discrete actions, any id that Gymnasium knows"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 500_000
    """environment steps of the whole run"""
    learning_rate: Annotated[float, Range(0)] = 2.5e-4
    """step size of the optimiser"""
    buffer_size: Annotated[int, Range(1)] = 10_000
    """transitions that the replay buffer holds"""
    gamma: Annotated[float, Range(0, 1)] = 0.99
    """discount of future rewards"""
    tau: Annotated[float, Range(0, 1)] = 1.0
    """how much of the network the target takes over at each sync"""
    target_network_frequency: Annotated[int, Range(1)] = 500
    """steps between two syncs of the target network"""
    batch_size: Annotated[int, Range(1)] = 128
    """transitions in a sample"""
    start_e: Annotated[float, Range(0, 1)] = 1.0
    """share of random actions at the start"""
    end_e: Annotated[float, Range(0, 1)] = 0.05
    """share of random actions after exploration"""
    exploration_fraction: Annotated[float, Range(0, 1)] = 0.5
    """part of the run over which that share falls"""
    learning_starts: Annotated[int, Range(0)] = 10_000
    """steps before learning begins"""
    train_frequency: Annotated[int, Range(1)] = 10
    """steps between two updates"""

    checkpoint_every: Annotated[int, Range(0)] = 0
    """steps between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by steps alone"""
    video_every: Annotated[int, Range(0)] = 0
    """episodes of the first env between two clips; 0: no clips"""


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)
    )


def epsilon(args: Args, step: int) -> float:
    """Share of random actions: falls linearly, then stays."""
    span = args.exploration_fraction * args.total_timesteps
    share = min(step / span, 1.0) if span else 1.0
    return args.start_e + share * (args.end_e - args.start_e)


class Learner:
    def __init__(self, args: Args, training: Training, envs: Envs) -> None:
        if not isinstance(envs.actions, spaces.Discrete):
            raise EnvUnfitError(f"dqn needs discrete actions, and those of {args.env_id} are {envs.actions}")
        self.args, self.training, self.envs = args, training, envs
        self.choices = int(envs.actions.n)
        self.q = network(envs.obs_dim, self.choices).to(training.device)
        self.target = network(envs.obs_dim, self.choices).to(training.device)
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=args.learning_rate, fused=True)
        self.buffer = ReplayBuffer(
            args.buffer_size, envs.obs_dim, np.zeros((), np.int64), device=training.device
        )

    def begin(self) -> int:
        parts: dict[str, Any] = {
            "q": self.q,
            "target": self.target,
            "optimizer": self.optimizer,
            "buffer": self.buffer,
        }
        return self.training.begin(self.envs, parts, weights=("q", "target"))

    def act(self, step: int) -> int:
        rng = self.training.random.numpy
        if rng.random() < epsilon(self.args, step):
            return int(rng.integers(self.choices))
        with torch.no_grad():
            obs = torch.from_numpy(self.envs.obs).to(self.training.device)
            return int(self.q(obs).argmax().item())

    def step(self, step: int) -> None:
        """Take one action and store the transition."""
        obs, action = self.envs.obs[0], self.act(step)
        seen = self.envs.step(np.asarray([action]))
        after = seen.final.get(0, seen.obs[0])
        # Only a terminal state has no future value; a truncated one has.
        self.buffer.add(obs, after, np.asarray(action), seen.rewards[0], seen.terminated[0])
        self.training.episodes(step, seen.episodes)

    def learn(self) -> tuple[Tensor, Tensor]:
        """Take one step of the optimiser; return the loss and the mean action value."""
        batch = self.buffer.sample(self.args.batch_size, self.training.random.numpy)
        with torch.no_grad():
            best = self.target(batch.next_obs).max(dim=1).values
            goal = batch.rewards + self.args.gamma * best * (1 - batch.ended)
        value = self.q(batch.obs).gather(1, batch.actions[:, None]).squeeze(1)
        loss = functional.mse_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach(), value.detach().mean()

    @torch.no_grad()
    def sync(self) -> None:
        for slow, fast in zip(self.target.parameters(), self.q.parameters(), strict=True):
            slow.lerp_(fast, self.args.tau)


def train(args: Args) -> None:
    training = Training("dqn", args)
    envs = Envs(args.env_id, args.env_kwargs, 1, args.seed, fork=training.fork)
    learner = Learner(args, training, envs)
    start = global_step = learner.begin()
    for global_step in range(start + 1, args.total_timesteps + 1):
        learner.step(global_step)
        if global_step > args.learning_starts:
            if global_step % args.train_frequency == 0:
                loss, value = learner.learn()
                if global_step % (LOG_EVERY * args.train_frequency) == 0:
                    losses = {"losses/td_loss": loss.item(), "losses/q_values": value.item()}
                    training.log(global_step, {**losses, "charts/epsilon": epsilon(args, global_step)})
            if global_step % args.target_network_frequency == 0:
                learner.sync()
        training.safe_point(global_step)
    training.finish(global_step)
    envs.close()


if __name__ == "__main__":
    main(Args, train, __doc__)
