"""A trainer that writes the protocol by hand, and in its second episode records an action it did not take."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium as gym

LIE = int(sys.argv[1])


def emit(**emitted: Any) -> None:
    sys.stdout.write(json.dumps(emitted) + "\n")


env = gym.make("CartPole-v1")
emit(
    type="env",
    slot=0,
    env_id="CartPole-v1",
    kwargs={},
    versions={"numpy": "0.0.1", "gymnasium": gym.__version__},
)
for number in range(2):
    name = f"by hand {number}"
    first, _ = env.reset(seed=number)
    emit(type="reset", episode_id=name, slot=0, seed=number, ordinal=number, obs=first.tolist())
    total, step, done = 0.0, 0, False
    while not done:
        action = step // 2 % 2
        seen, reward, terminated, truncated, _ = env.step(action)
        received = 1 - action if number == 1 and step == LIE else action
        where = {"episode_id": name, "slot": 0, "step": step}
        ends = {"terminated": bool(terminated), "truncated": bool(truncated)}
        emit(type="step", **where, **ends, action=received, reward=float(reward), obs=seen.tolist())
        total, step, done = total + float(reward), step + 1, terminated or truncated
    emit(type="episode", episode_id=name, slot=0, steps=step, **{"return": total})
emit(type="env", slot=1, env_id="Gone-v3", kwargs={}, versions={}, entry_point="gone_envs.deep:Gone")
emit(type="reset", episode_id="of another world", slot=1, seed=1, ordinal=0, obs=[0.5, 1.5])
for step in range(4):
    where = {"episode_id": "of another world", "slot": 1, "step": step}
    ends = {"terminated": step == 3, "truncated": False}
    emit(type="step", **where, **ends, action={"left": step}, reward=1.0, obs=[step / 2, -step / 3])
emit(type="episode", episode_id="of another world", slot=1, steps=4, **{"return": 4.0})
