"""Telemetry of CartPole: real steps of the env, batched as by a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runspine.wire.v1.telemetry_pb2 import (
    Array,
    Batch,
    EnvBatch,
    Episode,
    EpisodeBatch,
    Reset,
    StepBatch,
    StepBlock,
)

Policy = Callable[[Any, np.random.Generator], int]

MAX_ROWS = 512
BATCH_BYTES = 40 << 10
START = 1_794_800_549_000_000


def at_random(observation: Any, chance: np.random.Generator) -> int:
    return int(chance.integers(2))


def balancing(observation: Any, chance: np.random.Generator) -> int:
    """A rule that keeps the pole up for the whole episode."""
    position, speed, angle, turning = observation
    return int(angle + 0.5 * turning + 0.02 * speed + 0.02 * position > 0)


POLICIES: dict[str, Policy] = {"random": at_random, "balancing": balancing}


@dataclass
class CartpoleSteps:
    """Steps, episodes and resets that were played."""

    blocks: list[StepBlock] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)


def play(policy: Policy, steps: int, seed: int = 1) -> CartpoleSteps:
    """Play whole episodes until there are enough steps."""
    import gymnasium

    env, chance = gymnasium.make("CartPole-v1"), np.random.default_rng(seed)
    played, counter, now = CartpoleSteps(), 0, START
    env.reset(seed=seed)
    while counter < steps:
        name = f"0-{len(played.episodes)}"
        state = env.unwrapped.np_random.bit_generator.state
        observation, _ = env.reset()
        played.resets.append(
            Reset(
                episode_id=name, ordinal=len(played.episodes), rng_json=json.dumps(state), at=now,
                observation=Array(dtype="<f4", shape=[4], data=observation.tobytes()),
            )
        )  # fmt: skip
        rows: list[tuple[int, float, int, Any]] = []
        length, ended = 0, False
        while not ended:
            action = policy(observation, chance)
            observation, reward, terminated, truncated, _ = env.step(action)
            rows.append((action, float(reward), terminated | 2 * truncated, observation))
            ended = terminated or truncated
            if ended or len(rows) == MAX_ROWS:
                began, now = now, now + int(chance.normal(20, 2) * len(rows))
                played.blocks.append(_block(name, length, rows, counter, began, now))
                length, counter, rows = length + len(rows), counter + len(rows), []
        episode = Episode(episode_id=name, steps=length, ended_at=now, global_step=counter)
        setattr(episode, "return", float(length))
        played.episodes.append(episode)
    return played


def _block(name: str, first: int, rows: list[Any], counter: int, began: int, now: int) -> StepBlock:
    actions, rewards, flags, observations = zip(*rows, strict=True)
    return StepBlock(
        episode_id=name,
        first_step=first,
        count=len(rows),
        action=Array(dtype="<i8", data=np.array(actions, "<i8").tobytes()),
        reward=Array(dtype="<f8", data=np.array(rewards, "<f8").tobytes()),
        flags=bytes(flags),
        observation=Array(dtype="<f4", shape=[4], data=np.array(observations, "<f4").tobytes()),
        first_at=began,
        last_at=now,
        global_step=counter,
    )


def as_batches(run_id: str, played: CartpoleSteps) -> list[Batch]:
    """Batches of about 40 KB of each kind."""
    batches: list[dict[str, Any]] = []
    batches += [{"envs": EnvBatch(resets=group)} for group in packed(played.resets)]
    batches += [{"steps": StepBatch(blocks=group)} for group in packed(played.blocks)]
    batches += [{"episodes": EpisodeBatch(episodes=group)} for group in packed(played.episodes)]
    return [Batch(run_id=run_id, attempt=1, number=n, **kind) for n, kind in enumerate(batches, 1)]


def packed(items: list[Any]) -> list[list[Any]]:
    groups: list[list[Any]] = []
    size = BATCH_BYTES
    for item in items:
        if size >= BATCH_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += item.ByteSize()
    return groups
