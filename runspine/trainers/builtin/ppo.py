"""Proximal policy optimisation for discrete and continuous actions.

Schulman et al. 2017. Rollouts of a few envs, generalised advantage estimation, several epochs of
minibatches on the clipped objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, Normal

from runspine.trainers.builtin.envs import Envs, EnvUnfitError
from runspine.trainers.builtin.normalisation import ObservationScale, RewardScale
from runspine.trainers.builtin.packing import Array
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.training import Training, main


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
    """environment, any id that Gymnasium knows"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 500_000
    """environment steps of the whole run"""
    learning_rate: Annotated[float, Range(0)] = 2.5e-4
    """step size of the optimiser"""
    num_envs: Annotated[int, Range(1)] = 4
    """environments stepped side by side"""
    num_steps: Annotated[int, Range(1)] = 128
    """steps in each environment between two updates"""
    anneal_lr: bool = True
    """bring the learning rate down to zero over the run"""
    gamma: Annotated[float, Range(0, 1)] = 0.99
    """discount of future rewards"""
    gae_lambda: Annotated[float, Range(0, 1)] = 0.95
    """trade-off of bias and variance in the advantages"""
    num_minibatches: Annotated[int, Range(1)] = 4
    """parts that a batch is cut into"""
    update_epochs: Annotated[int, Range(1)] = 4
    """times that each batch is learnt from"""
    norm_adv: bool = True
    """bring the advantages of each minibatch to mean 0 and deviation 1"""
    clip_coef: Annotated[float, Range(0)] = 0.2
    """how far the new policy's probabilities may move from the old one's"""
    clip_vloss: bool = True
    """clip the value's movement likewise"""
    ent_coef: Annotated[float, Range(0)] = 0.01
    """weight of the entropy bonus"""
    vf_coef: Annotated[float, Range(0)] = 0.5
    """weight of the value loss"""
    max_grad_norm: Annotated[float, Range(0)] = 0.5
    """longest gradient that is not shortened"""
    target_kl: Annotated[float, Range(0)] | None = None
    """stop the epochs of an update beyond this divergence"""
    normalize: Literal["auto", "yes", "no"] = "auto"
    """scale observations and rewards by running statistics; auto: with continuous actions"""

    checkpoint_every: Annotated[int, Range(0)] = 0
    """steps between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by steps alone"""
    video_every: Annotated[int, Range(0)] = 0
    """episodes of the first env between two clips; 0: no clips"""


class Agent(nn.Module):
    """Policy and value: two networks with two layers of 64."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        self.continuous = isinstance(envs.actions, spaces.Box)
        outputs = spaces.flatdim(envs.actions)
        self.critic = network(envs.obs_dim, 1, last_gain=1.0)
        self.actor = network(envs.obs_dim, outputs, last_gain=0.01)
        if self.continuous:
            self.log_std = nn.Parameter(torch.zeros(1, outputs))

    def policy(self, obs: Tensor) -> Distribution:
        out: Tensor = self.actor(obs)
        if self.continuous:
            return Independent(Normal(out, self.log_std.expand_as(out).exp(), validate_args=False), 1)
        return Categorical(logits=out, validate_args=False)

    def value(self, obs: Tensor) -> Tensor:
        value: Tensor = self.critic(obs)
        return value.squeeze(-1)


def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    return nn.Sequential(
        layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, gain=last_gain)
    )


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


@dataclass
class Rollout:
    """Observations, actions, log-probabilities, rewards and values by step and env."""

    obs: Tensor
    actions: Tensor
    logprobs: Tensor
    rewards: Tensor
    dones: Tensor
    values: Tensor
    # Steps that are filled; not 0 only in the checkpoint of a run that was stopped within a rollout.
    filled: int = 0

    def columns(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def state_dict(self) -> dict[str, Any]:
        kept = {name: column[: self.filled].clone() for name, column in self.columns().items()}
        return {"filled": self.filled, **(kept if self.filled else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.filled = state["filled"]
        for name, column in self.columns().items() if self.filled else ():
            column[: self.filled] = state[name]

    @classmethod
    def empty(cls, args: Args, envs: Envs, device: torch.device) -> Rollout:
        shape = (args.num_steps, args.num_envs)
        action = envs.actions.shape if isinstance(envs.actions, spaces.Box) else ()
        size = (int(np.prod(action)),) if action else ()
        obs = torch.zeros((*shape, envs.obs_dim), device=device)
        actions = torch.zeros(shape + size, dtype=torch.float32 if size else torch.int64, device=device)
        logprobs, rewards, dones, values = (torch.zeros(shape, device=device) for _ in range(4))
        return cls(obs, actions, logprobs, rewards, dones, values)


class Learner:
    def __init__(self, args: Args, training: Training, envs: Envs) -> None:
        self.args, self.training, self.envs = args, training, envs
        self.device = training.device
        self.agent = Agent(envs).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.agent.parameters(), lr=args.learning_rate, eps=1e-5, fused=True
        )
        on = args.normalize == "yes" or (args.normalize == "auto" and self.agent.continuous)
        self.obs_scale = ObservationScale(envs.obs_dim, on)
        self.reward_scale = RewardScale(len(envs), args.gamma, on)
        self.rollout = Rollout.empty(args, envs, self.device)

    def parts(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "optimizer": self.optimizer,
            "observations": self.obs_scale,
            "rewards": self.reward_scale,
            "rollout": self.rollout,
        }

    def begin(self) -> int:
        step = self.training.begin(self.envs, self.parts(), weights=("agent", "observations", "rewards"))
        if step == 0:
            self.reward_scale.begin(len(self.envs))
            self.obs_scale.update(self.envs.obs)
        return step

    def collect(self, global_step: int) -> int:
        """Fill the rollout, or the rest of it; return the step reached."""
        args, rollout = self.args, self.rollout
        for t in range(rollout.filled, args.num_steps):
            global_step += args.num_envs
            obs = self.seen(self.envs.obs)
            with torch.no_grad():
                policy = self.agent.policy(obs)
                action = policy.sample()
                rollout.logprobs[t] = policy.log_prob(action)
                rollout.values[t] = self.agent.value(obs)
            rollout.obs[t], rollout.actions[t] = obs, action
            step = self.envs.step(action.cpu().numpy())
            self.obs_scale.update(step.obs)
            done = step.terminated | step.truncated
            rewards = self.reward_scale(step.rewards, done).astype(np.float32)
            for slot in np.flatnonzero(step.truncated & ~step.terminated).tolist():
                # Truncated: add the critic's estimate of the future value.
                rewards[slot] += args.gamma * self.worth(step.final[slot])
            rollout.rewards[t] = torch.from_numpy(rewards)
            rollout.dones[t] = torch.from_numpy(done)
            self.training.episodes(global_step, step.episodes)
            if self.training.asked_to_stop:
                # A long rollout would outlast the grace period: its filled part goes into the checkpoint.
                rollout.filled = t + 1
                self.training.safe_point(global_step)
        rollout.filled = 0
        return global_step

    def seen(self, obs: Array) -> Tensor:
        return torch.from_numpy(self.obs_scale(obs)).to(self.device)

    @torch.no_grad()
    def worth(self, obs: Array) -> float:
        return float(self.agent.value(self.seen(obs[None])).item())

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """Generalised advantage estimation, from the last step back to the first."""
        args, rollout = self.args, self.rollout
        found = torch.zeros_like(rollout.rewards)
        next_value, running = self.agent.value(self.seen(self.envs.obs)), torch.zeros(args.num_envs)
        running = running.to(self.device)
        for t in reversed(range(args.num_steps)):
            goes_on = 1.0 - rollout.dones[t]
            surprise = rollout.rewards[t] + args.gamma * next_value * goes_on - rollout.values[t]
            running = surprise + args.gamma * args.gae_lambda * goes_on * running
            found[t] = running
            next_value = rollout.values[t]
        return found

    def update(self) -> dict[str, float]:
        """Learn from the rollout; return the losses of the last minibatch."""
        args = self.args
        advantages = self.advantages()
        batch = {name: column.flatten(0, 1) for name, column in self.rollout.columns().items()}
        batch["advantages"] = advantages.flatten()
        batch["returns"] = batch["advantages"] + batch["values"]
        size = args.num_envs * args.num_steps
        losses: dict[str, float] = {}
        clipped: list[float] = []
        for _ in range(args.update_epochs):
            order = torch.from_numpy(self.training.random.numpy.permutation(size))
            for rows in order.chunk(args.num_minibatches):
                losses = self.learn({name: column[rows] for name, column in batch.items()})
                clipped.append(losses["losses/clipfrac"])
            if args.target_kl is not None and losses["losses/approx_kl"] > args.target_kl:
                break
        spread = batch["returns"].var()
        left = (batch["returns"] - batch["values"]).var()
        losses["losses/clipfrac"] = float(np.mean(clipped))
        # Before they are normalised.
        losses["losses/advantage_mean"] = batch["advantages"].mean().item()
        losses["losses/advantage_std"] = batch["advantages"].std(correction=0).item()
        losses["losses/explained_variance"] = (1 - left / spread).item() if spread > 0 else float("nan")
        return losses

    def learn(self, batch: dict[str, Tensor]) -> dict[str, float]:
        """Take one step of the optimiser."""
        args = self.args
        policy = self.agent.policy(batch["obs"])
        log_ratio = policy.log_prob(batch["actions"]) - batch["logprobs"]
        ratio = log_ratio.exp()
        advantages = batch["advantages"]
        if args.norm_adv and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        bounded = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
        policy_loss = -torch.min(advantages * ratio, advantages * bounded).mean()
        value_loss = self.value_loss(batch)
        entropy = policy.entropy().mean()
        loss = policy_loss - args.ent_coef * entropy + args.vf_coef * value_loss
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.agent.parameters(), args.max_grad_norm)
        self.optimizer.step()
        with torch.no_grad():
            return {
                "losses/value_loss": value_loss.item(),
                "losses/policy_loss": policy_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": (-log_ratio).mean().item(),
                "losses/approx_kl": ((ratio - 1) - log_ratio).mean().item(),
                "losses/clipfrac": ((ratio - 1).abs() > args.clip_coef).float().mean().item(),
            }

    def value_loss(self, batch: dict[str, Tensor]) -> Tensor:
        value = self.agent.value(batch["obs"])
        error = (value - batch["returns"]) ** 2
        if self.args.clip_vloss:
            moved = (value - batch["values"]).clamp(-self.args.clip_coef, self.args.clip_coef)
            error = torch.max(error, (batch["values"] + moved - batch["returns"]) ** 2)
        return 0.5 * error.mean()


def train(args: Args) -> None:
    size = args.num_envs * args.num_steps
    iterations = args.total_timesteps // size
    if not iterations:
        raise EnvUnfitError(
            f"--total-timesteps {args.total_timesteps} is less than one batch of "
            f"{args.num_envs} envs × {args.num_steps} steps"
        )
    if size < args.num_minibatches:
        raise EnvUnfitError(f"a batch of {size} steps cannot be cut into {args.num_minibatches} minibatches")
    training = Training("ppo", args)
    envs = Envs(args.env_id, args.env_kwargs, args.num_envs, args.seed, fork=training.fork)
    learner = Learner(args, training, envs)
    global_step = learner.begin()
    done = global_step - learner.rollout.filled * args.num_envs
    for iteration in range(done // size, iterations):
        if args.anneal_lr:
            learner.optimizer.param_groups[0]["lr"] = (1 - iteration / iterations) * args.learning_rate
        global_step = learner.collect(global_step)
        losses = learner.update()
        rate = learner.optimizer.param_groups[0]["lr"]
        training.log(global_step, {**losses, "charts/learning_rate": rate})
        training.safe_point(global_step)
    training.finish(global_step)
    envs.close()


if __name__ == "__main__":
    main(Args, train, __doc__)
