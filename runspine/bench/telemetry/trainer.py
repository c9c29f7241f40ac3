"""A trainer that costs almost nothing: it plays prepared CartPole steps through the SDK.

A real worker starts it: `python -m runspine.bench.telemetry.trainer …`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

import runspine
from runspine.bench.telemetry.walks import TERMINATED, TRUNCATED, Walk, walk

# Interval at which a paced trainer reads the clock.
TICK_SECONDS = 0.005
# Envs of a vector trainer, which divide its steps.
ENVS = 512


class WalkEnv(gymnasium.Env[Any, Any]):
    """Returns prepared steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, walked: Walk) -> None:
        self._first, self._observations = walked.first, walked.observations
        self._ends = [(bool(f & TERMINATED), bool(f & TRUNCATED)) for f in walked.flags.tolist()]
        self._at = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self._first[min(self._at, len(self._ends) - 1)], {}

    def step(self, action: Any) -> Any:
        at = self._at
        self._at = at + 1
        terminated, truncated = self._ends[at]
        return self._observations[at], 1.0, terminated, truncated, {}


class WalkVector(VectorEnv[Any, Any, Any]):
    """Returns prepared steps of many envs at once, each env's one after another."""

    single_observation_space = WalkEnv.observation_space
    single_action_space = WalkEnv.action_space

    def __init__(self, walked: Walk, envs: int) -> None:
        self.num_envs = envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.observation_space = batch_space(self.single_observation_space, envs)
        self.action_space = batch_space(self.single_action_space, envs)
        self.actions, self._observations = by_row(walked.actions, envs), by_row(walked.observations, envs)
        flags = by_row(walked.flags, envs)
        self._terminated, self._truncated = (flags & TERMINATED) != 0, (flags & TRUNCATED) != 0
        self._rewards, self._at = np.ones(envs), 0

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        return self._observations[0], {}

    def step(self, actions: Any) -> Any:
        at = self._at
        self._at = at + 1
        return self._observations[at], self._rewards, self._terminated[at], self._truncated[at], {}


def by_row(column: Any, envs: int) -> Any:
    """A column of steps as [steps, envs]; each env has consecutive ones."""
    return np.ascontiguousarray(np.swapaxes(column.reshape(envs, -1, *column.shape[1:]), 0, 1))


def play_vector(env: Any, actions: Any) -> None:
    step = env.step
    env.reset()
    for row in actions:
        step(row)


def play(env: Any, actions: list[int], flags: list[int], rate: float) -> None:
    """Play every step, as fast as possible or at `rate` per second."""
    step, reset = env.step, env.reset
    reset(seed=1)
    chunk = max(1, int(rate * TICK_SECONDS)) if rate else len(actions)
    began = time.perf_counter()
    for start in range(0, len(actions), chunk):
        if rate:
            time.sleep(max(0.0, began + start / rate - time.perf_counter()))
        for at in range(start, min(start + chunk, len(actions))):
            step(actions[at])
            if flags[at]:
                reset()


def log_scalars(steps: int) -> None:
    """Log the reward of every step, as with other tools."""
    for at in range(steps):
        runspine.log({"reward": 1.0}, step=at)


def wait(ready: Path, go: Path) -> None:
    ready.touch()
    while not go.exists():
        time.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="learning")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, default=0.0, help="steps a second; 0: as many as it can")
    parser.add_argument("--ready", type=Path, required=True, help="made when it could begin")
    parser.add_argument("--go", type=Path, required=True, help="awaited before it begins")
    parser.add_argument(
        "--kind", choices=("steps", "metrics", "vector"), default="steps", help="what is recorded"
    )
    args = parser.parse_args()
    if args.kind == "metrics":
        wait(args.ready, args.go)
        log_scalars(args.steps)
        runspine.finish()
        return
    walked = walk(args.policy, args.steps, args.seed)
    if args.kind == "vector":
        vector = WalkVector(walked, ENVS)
        many = runspine.wrap(vector)
        wait(args.ready, args.go)
        play_vector(many, vector.actions)
        runspine.finish()
        return
    env = runspine.wrap(WalkEnv(walked))
    actions, flags = walked.actions.tolist(), walked.flags.tolist()
    wait(args.ready, args.go)
    play(env, actions, flags, args.rate)
    runspine.finish()


if __name__ == "__main__":
    main()
