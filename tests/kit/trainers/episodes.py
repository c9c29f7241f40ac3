"""A trainer that plays at random in many envs, one after the other: episodes to be replayed."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

# Of the env packages; in one of them a warning at import would end the interpreter.
warnings.simplefilter("ignore")

import gymnasium as gym  # noqa: E402

import runspine  # noqa: E402

LONGEST = 60


def play(env: Any, seed: int, episodes: int) -> None:
    """Only the first reset is seeded: the others go on from where the generator was left."""
    env.action_space.seed(seed)
    for number in range(episodes):
        env.reset(seed=seed if number == 0 else None)
        for _ in range(LONGEST):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break


def main() -> None:
    run = runspine.init()
    for env_id, kwargs in json.loads(sys.argv[1]):
        if env_id.startswith("MiniGrid"):
            import minigrid  # noqa: F401
        if env_id.startswith("ALE/"):
            import ale_py

            gym.register_envs(ale_py)
        # So short an episode ends by truncation at the latest.
        env = runspine.wrap(gym.make(env_id, max_episode_steps=LONGEST, **kwargs), slot=0)
        play(env, run.seed, 4)
        env.close()
    # Slots of a vector env, resets among its steps.
    envs = runspine.wrap(gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"), slot=1)
    envs.action_space.seed(run.seed)
    envs.reset(seed=run.seed)
    for _ in range(120):
        envs.step(envs.action_space.sample())
    envs.close()
    run.finish()


main()
