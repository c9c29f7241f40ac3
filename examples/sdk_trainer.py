"""A trainer to copy: Gymnasium's CartPole and a policy that climbs its hill by guessing. Runs alone, too."""

import gymnasium as gym
import numpy as np

import runspine

run = runspine.init({"noise": 0.5}, total_steps=20_000)
env = runspine.wrap(gym.make(run.env_id or "CartPole-v1", **run.env_kwargs))
dice = np.random.default_rng(run.seed)
best, record, step = np.zeros(4), -np.inf, 0
observation, _ = env.reset(seed=run.seed)
while step < run.total_steps:
    weights, total, ended = best + run.params["noise"] * dice.normal(size=4), 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(int(observation @ weights > 0))
        step, total, ended = step + 1, total + reward, terminated or truncated
    observation, _ = env.reset()
    if total >= record:
        best, record = weights, total
    run.log({"charts/record": record, "charts/episodic_return": total}, step=step)
np.save(run.dir / "best.npy", best)
run.checkpoint(run.dir / "best.npy", step=step)
run.finish()
print(f"done after {step} steps, best return {record:g}")
