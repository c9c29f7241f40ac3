"""Fine-tuning: acts in the env and adds the transitions to the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from runspine.trainers.builtin.packing import Array
from runspine.trainers.offline.training import OfflineTraining


def explore(trial: OfflineTraining, act: Callable[[Array], Array], noise: float) -> None:
    """Act with noise, as a share of the actions' range, and add the transition."""
    envs, space = trial.envs, trial.arena.actions
    assert isinstance(space, spaces.Box)
    low, high = space.low.ravel(), space.high.ravel()
    obs = envs.obs[0].copy()
    jitter = trial.training.random.numpy.normal(0.0, noise, len(low)) * (high - low) / 2
    action = np.clip(act(trial.scale(obs[None])) + jitter, low, high).astype(np.float32)
    seen = envs.step(action[None])
    after = seen.final.get(0, seen.obs[0])
    # Only a terminal state has no future value; a truncated one has.
    trial.data.add(obs, after, action, float(seen.rewards[0]), bool(seen.terminated[0]))
