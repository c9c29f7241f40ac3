"""Episodes as the SDK writes them and the worker reads them, put together as GetEpisode answers them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from runspine.replay import Replay, ReplayVerifier
from runspine.services.worker.protocol.parsers import HANDLERS
from runspine.wire.v1.telemetry_pb2 import (
    EnvMade,
    Episode,
    EpisodeEntry,
    GetEpisodeResponse,
    Reset,
    StepBlock,
)
from tests.kit.samples.sdk import Listener

Lines = list[dict[str, Any]]


def recorded(folder: Path, play: Callable[[Listener], None], **variables: str) -> list[GetEpisodeResponse]:
    """Every episode of a trainer, the running ones last, in the order in which they began."""
    folder.mkdir(exist_ok=True)
    listener = Listener(folder, **variables)
    play(listener)
    return answers(listener.lines())


def answers(lines: Lines) -> list[GetEpisodeResponse]:
    found: dict[str, GetEpisodeResponse] = {}
    made: dict[int, EnvMade] = {}
    for emitted in lines:
        if emitted["type"] not in ("env", "reset", "steps", "step", "episode"):
            continue
        event = HANDLERS[emitted["type"]](emitted, 0, json.dumps(emitted).encode())
        match event:
            case EnvMade():
                made[event.slot] = event
            case Reset():
                answer = GetEpisodeResponse(env=made[event.slot], reset=event)
                answer.entry.episode.episode_id = event.episode_id
                found[event.episode_id] = answer
            case StepBlock():
                found[event.episode_id].blocks.append(event)
            case Episode():
                found[event.episode_id].entry.CopyFrom(EpisodeEntry(attempt=1, episode=event))
    return list(found.values())


def random_play(env: Any, episodes: int, longest: int = 200, seed: int = 3) -> None:
    """Episodes one after the other in one env, each to its end or so many steps."""
    env.action_space.seed(seed)
    for number in range(episodes):
        env.reset(seed=seed if number == 0 else None)
        for _ in range(longest):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
    env.close()


def tampered(emitted: GetEpisodeResponse, step: int, action: Any) -> GetEpisodeResponse:
    """The same record with another action at one step."""
    wrong = GetEpisodeResponse()
    wrong.CopyFrom(emitted)
    block = next(b for b in wrong.blocks if b.first_step <= step < b.first_step + b.count)
    data = np.asarray(action, block.action.dtype).tobytes()
    at = (step - block.first_step) * len(data)
    block.action.data = block.action.data[:at] + data + block.action.data[at + len(data) :]
    assert len(block.action.data) == block.count * len(data)
    return wrong


def other_action(replay: Replay, step: int) -> Any:
    """An action that would have given something else at this step; None when there is none."""
    record = replay.record
    for seed in range(12):
        env = replay.env_at(step)
        env.action_space.seed(seed)
        action = env.action_space.sample()
        result = env.step(action)
        env.close()
        if np.array_equal(action, record.action(step)):
            continue
        if ReplayVerifier(record).stepped(step, result) is not None:
            return action
    return None
