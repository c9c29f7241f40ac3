"""Tabular Q-learning for envs with a few discrete states and actions.

Watkins 1989: one number for each state and action, moved towards what came after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from gymnasium import spaces

from runspine.trainers.builtin.envs import Envs, EnvUnfitError
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.training import Training, main

LOG_EVERY = 1000


@dataclass
class Args:
    seed: int = 1
    """seed of everything random"""

    env_id: str = "FrozenLake-v1"
    """environment with discrete observations and actions, any id that Gymnasium knows"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 500_000
    """environment steps of the whole run"""
    learning_rate: Annotated[float, Range(0, 1)] = 0.1
    """how far a value moves towards its goal at the start"""
    end_learning_rate: Annotated[float, Range(0, 1)] = 0.005
    """how far at the end; it falls geometrically"""
    gamma: Annotated[float, Range(0, 1)] = 0.99
    """discount of future rewards"""
    start_e: Annotated[float, Range(0, 1)] = 1.0
    """share of random actions at the start"""
    end_e: Annotated[float, Range(0, 1)] = 0.0
    """share of random actions after exploration"""
    exploration_fraction: Annotated[float, Range(0, 1)] = 0.8
    """part of the run over which that share falls"""

    checkpoint_every: Annotated[int, Range(0)] = 0
    """steps between checkpoints; 0: a tenth of the run, unless seconds are given"""
    checkpoint_seconds: Annotated[float, Range(0)] = 0.0
    """seconds between checkpoints; 0: by steps alone"""
    video_every: Annotated[int, Range(0)] = 0
    """episodes of the first env between two clips; 0: no clips"""


def epsilon(args: Args, step: int) -> float:
    """Share of random actions: falls linearly, then stays."""
    span = args.exploration_fraction * args.total_timesteps
    share = min(step / span, 1.0) if span else 1.0
    return args.start_e + share * (args.end_e - args.start_e)


def learning_rate(args: Args, step: int) -> float:
    """Falls geometrically: large while values are far off, small when only noise is left to average."""
    low, high = args.end_learning_rate, args.learning_rate
    if low <= 0 or high <= 0:
        return high + (low - high) * step / args.total_timesteps
    return float(high * (low / high) ** (step / args.total_timesteps))


class QTable:
    """Action values, states by actions."""

    def __init__(self, states: int, actions: int) -> None:
        self.q = np.zeros((states, actions), np.float64)

    def state_dict(self) -> dict[str, Any]:
        return {"q": torch.from_numpy(self.q.copy())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.q = np.array(state["q"].cpu().numpy())


class Learner:
    def __init__(self, args: Args, training: Training, envs: Envs) -> None:
        if not isinstance(envs.actions, spaces.Discrete) or not isinstance(
            envs.observations, spaces.Discrete
        ):
            raise EnvUnfitError(
                f"qlearning needs discrete observations and actions, and {args.env_id} has "
                f"{envs.observations} and {envs.actions}"
            )
        self.args, self.training, self.envs = args, training, envs
        self.first = int(envs.observations.start)
        self.table = QTable(int(envs.observations.n), int(envs.actions.n))
        self.mistakes: list[float] = []

    def begin(self) -> int:
        return self.training.begin(self.envs, {"table": self.table}, weights=("table",))

    def act(self, state: int, step: int) -> int:
        """Usually the best action; a random one among equals, so that an empty table explores."""
        rng, row = self.training.random.numpy, self.table.q[state]
        if rng.random() < epsilon(self.args, step):
            return int(rng.integers(len(row)))
        best = np.flatnonzero(row == row.max())
        return int(best[0] if len(best) == 1 else rng.choice(best))

    def step(self, step: int) -> None:
        """Take one action and learn from it."""
        q = self.table.q
        state = int(self.envs.obs[0]) - self.first
        action = self.act(state, step)
        seen = self.envs.step(np.asarray([action]))
        after = int(seen.final.get(0, seen.obs[0])) - self.first
        goal = float(seen.rewards[0])
        if not seen.terminated[0]:
            goal += self.args.gamma * q[after].max()
        mistake = goal - q[state, action]
        q[state, action] += learning_rate(self.args, step) * mistake
        self.mistakes.append(mistake * mistake)
        self.training.episodes(step, seen.episodes)

    def log(self, step: int) -> None:
        self.training.log(
            step,
            {
                "losses/td_loss": float(np.mean(self.mistakes)),
                "losses/q_values": float(self.table.q.max(axis=1).mean()),
                "charts/learning_rate": learning_rate(self.args, step),
                "charts/epsilon": epsilon(self.args, step),
            },
        )
        self.mistakes.clear()


def train(args: Args) -> None:
    training = Training("qlearning", args)
    envs = Envs(args.env_id, args.env_kwargs, 1, args.seed, flat=False, fork=training.fork)
    learner = Learner(args, training, envs)
    start = global_step = learner.begin()
    for global_step in range(start + 1, args.total_timesteps + 1):
        learner.step(global_step)
        if global_step % LOG_EVERY == 0:
            learner.log(global_step)
        training.safe_point(global_step)
    training.finish(global_step)
    envs.close()


if __name__ == "__main__":
    main(Args, train, __doc__)
