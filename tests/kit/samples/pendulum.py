"""A swing-up controller for Pendulum-v1, written down instead of learnt, and datasets of what it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from runspine.datasets import Manifest
from runspine.datasets.archive import pack
from runspine.datasets.minari_folder import describe
from runspine.datasets.minari_writer import MinariWriter

# Measured over 20 episodes.
RANDOM, EXPERT = -1281.0, -151.0


def controller(seen: Any) -> Any:
    """Swings up by feeding energy, then balances."""
    up, side, speed = (float(each) for each in seen)
    angle = np.arctan2(side, up)
    if up > 0.9 or abs(angle) < 0.5:
        torque = -(10 * angle + 2 * speed)
    else:
        energy = speed**2 / 6 + 5 * (up - 1)
        torque = -energy * speed if abs(speed) > 0.1 else 2.0
    return np.array([np.clip(torque, -2, 2)], np.float32)


def record(folder: Path, episodes: int = 3, *, env_id: str = "Pendulum-v1", random: bool = False) -> Manifest:
    """A Minari dataset in that folder."""
    env = gym.make(env_id)
    env.action_space.seed(1)
    writer = MinariWriter(folder, env, "tests/pendulum-v0")
    for number in range(episodes):
        seen, _ = env.reset(seed=number)
        writer.begin(seen, number)
        done = False
        while not done:
            action = env.action_space.sample() if random else controller(seen)
            seen, reward, terminated, truncated, _ = env.step(action)
            writer.add(action, seen, float(reward), terminated, truncated)
            done = bool(terminated or truncated)
        writer.end()
    env.close()
    manifest = describe(folder)
    return replace(manifest, returns=replace(manifest.returns, random=RANDOM, expert=EXPERT))


def packed(folder: Path, target: Path, episodes: int = 3, **how: Any) -> Manifest:
    return pack(folder, record(folder, episodes, **how), target)
