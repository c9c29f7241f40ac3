"""Fine-tuning: one more step in the env, added to the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from services.worker.algorithms.packing import Array
from services.worker.offline.trial import Trial


def explore(trial: Trial, act: Callable[[Array], Array], noise: float) -> None:
    """Act with some noise, a share of the actions' range, and remember what came of it."""
    envs, space = trial.envs, trial.arena.actions
    assert isinstance(space, spaces.Box)
    low, high = space.low.ravel(), space.high.ravel()
    obs = envs.obs[0].copy()
    jitter = trial.training.random.numpy.normal(0.0, noise, len(low)) * (high - low) / 2
    action = np.clip(act(trial.scale(obs[None])) + jitter, low, high).astype(np.float32)
    seen = envs.step(action[None])
    after = seen.final.get(0, seen.obs[0])
    # Only a terminal state has no future; one cut off by the clock has.
    trial.data.add(obs, after, action, float(seen.rewards[0]), bool(seen.terminated[0]))
