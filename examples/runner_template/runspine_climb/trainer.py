"""The process of a run: trains, reports what it does, saves checkpoints, stops on SIGTERM.

It runs in the Python that the worker has for this runner and needs there only `runspine` and what you
train with.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import runspine


class Climber:
    """The weights, the best return so far, and the dice: replace it with what you train."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        actions, seen = env.action_space, env.observation_space
        if not isinstance(actions, gym.spaces.Discrete) or not isinstance(seen, gym.spaces.Box):
            sys.exit(f"climb needs discrete actions and a box to see, not {actions} and {seen}")
        self.dice = np.random.default_rng(seed)
        self.weights = np.zeros((int(np.prod(seen.shape)), int(actions.n)))
        self.best = -np.inf

    def tried(self, noise: float) -> np.ndarray[Any, Any]:
        return self.weights + noise * self.dice.standard_normal(self.weights.shape)

    def state(self) -> dict[str, Any]:
        dice = self.dice.bit_generator.state
        return {"weights": self.weights.tolist(), "best": float(self.best), "dice": dice}

    def take(self, state: dict[str, Any], *, everything: bool) -> None:
        self.weights = np.array(state["weights"])
        if everything:
            self.best, self.dice.bit_generator.state = state["best"], state["dice"]


def episode(env: gym.Env[Any, Any], weights: np.ndarray[Any, Any], seed: int | None) -> tuple[float, int]:
    """One to its end; return and length."""
    seen, _ = env.reset(seed=seed)
    gained, length, done = 0.0, 0, False
    while not done:
        action = int(np.argmax(np.ravel(seen) @ weights))
        seen, reward, terminated, truncated, _ = env.step(action)
        gained, length, done = gained + float(reward), length + 1, terminated or truncated
    return gained, length


def save(run: runspine.Run, climber: Climber, step: int) -> None:
    """Written aside and renamed: a kill leaves no half checkpoint. JSON: nothing to unpickle."""
    path = Path(run.dir) / f"climber-{step}.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps({"step": step, **climber.state()}))
    draft.rename(path)
    run.checkpoint(path, step=step, env_id=run.env_id, seed=run.seed, return_mean=climber.best)


def train(run: runspine.Run, env: gym.Env[Any, Any], climber: Climber) -> int:
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    step = 0
    if run.resume_path:
        state = json.loads(run.resume_path.read_text())
        # The same run again: everything as it was. A warm start: the weights alone, from step 0.
        climber.take(state, everything=run.resume_kind == "resume")
        step = state["step"] if run.resume_kind == "resume" else 0
    total = run.total_steps or 2000
    saved, seed = step, run.seed + step
    print(f"from step {step:,} to {total:,}", flush=True)
    while step < total and not asked:
        weights = climber.tried(run.params["noise"])
        gained, length = episode(env, weights, seed)
        step, seed = step + length, None
        if gained >= climber.best:
            climber.best, climber.weights = gained, weights
        run.log({"charts/episodic_return": gained, "charts/best_return": climber.best}, step=step)
        if step - saved >= max(total // 10, 1):
            save(run, climber, step)
            saved = step
    if step > saved:
        save(run, climber, step)
    run.finish()
    return 128 + asked[0] if asked else 0


def evaluate(run: runspine.Run, env: gym.Env[Any, Any], climber: Climber, episodes: int, digest: str) -> int:
    """The checkpoint comes the same way as for a resume."""
    assert run.resume_path is not None
    state = json.loads(run.resume_path.read_text())
    climber.take(state, everything=False)
    began = time.monotonic()
    played = [episode(env, climber.weights, run.seed + k) for k in range(episodes)]
    returns, lengths = zip(*played, strict=True)
    about = {"digest": digest, "env_id": run.env_id, "seed": run.seed, "step": state["step"]}
    run.log_evaluation(returns, lengths, time.monotonic() - began, deterministic=True, **about)
    run.finish()
    return 0


def main() -> int:
    run = runspine.init({"noise": 0.2})
    try:
        made = gym.make(run.env_id, **run.env_kwargs)
    except (gym.error.Error, TypeError) as error:
        sys.exit(f"env {run.env_id} cannot be made: {error}")  # the last line is the run's reason
    # Every step, reset and episode of a wrapped env is recorded, and can be replayed.
    env = runspine.wrap(made)
    climber = Climber(env, run.seed)
    if sys.argv[1:2] == ["--evaluate"]:
        return evaluate(run, env, climber, int(sys.argv[2]), sys.argv[3])
    return train(run, env, climber)


if __name__ == "__main__":
    sys.exit(main())
