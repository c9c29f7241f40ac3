"""Vector envs give the same episodes as Gymnasium's own statistics, however they are reset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from runspine.sdk.run import Run
from runspine.sdk.wrapping import wrapped
from tests.kit.samples.sdk import Listener, column, of_type, whole

MODES = list(AutoresetMode)
SLOTS = 3


def make(kind: Any, mode: AutoresetMode, env_id: str = "CartPole-v1") -> Any:
    return kind([lambda: gym.make(env_id) for _ in range(SLOTS)], autoreset_mode=mode)


def drive(env: Any, mode: AutoresetMode, steps: int, seed: int = 5) -> list[tuple[int, float, int]]:
    """(slot, return, length) of every episode, as reported by RecordEpisodeStatistics.

    With resets by hand it loses count (Gymnasium 1.4: the mask is gone when it looks), so we count there.
    """
    rng = np.random.default_rng(seed)
    lengths = np.zeros(SLOTS, dtype=int)
    emitted: list[tuple[int, float, int]] = []
    for _ in range(steps):
        *_, terminated, truncated, infos = env.step(rng.integers(0, 2, SLOTS))
        done = terminated | truncated
        lengths += 1
        for slot in map(int, np.flatnonzero(done)):
            by_hand = {"r": lengths, "l": lengths} if mode == AutoresetMode.DISABLED else infos["episode"]
            emitted.append((slot, float(by_hand["r"][slot]), int(by_hand["l"][slot])))
            lengths[slot] = 0
        if mode == AutoresetMode.DISABLED and done.any():
            env.reset(options={"reset_mask": done})
    return emitted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_episodes_are_those_of_gymnasiums_own_statistics(tmp_path: Path, kind: Any, mode: Any) -> None:
    listener = Listener(tmp_path)
    env = RecordEpisodeStatistics(listener.wrap(make(kind, mode)))
    env.reset(seed=11)
    expected = drive(env, mode, 300)
    env.close()
    lines = listener.lines()
    episodes = [
        (emitted["slot"], emitted["return"], emitted["steps"]) for emitted in of_type(lines, "episode")
    ]
    assert sorted(episodes) == sorted(expected)
    assert len(expected) > 20
    ids = [emitted["episode_id"] for emitted in of_type(lines, "reset")]
    assert len(set(ids)) == len(ids)
    assert {emitted["env_id"] for emitted in of_type(lines, "env")} == {"CartPole-v1"}
    assert listener.run.dropped == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_every_recorded_episode_can_be_walked_again_on_a_bare_env(
    tmp_path: Path, kind: Any, mode: Any
) -> None:
    listener = Listener(tmp_path)
    env = RecordEpisodeStatistics(listener.wrap(make(kind, mode)))
    env.reset(seed=11)
    drive(env, mode, 200)
    env.close()
    lines = listener.lines()
    bare = gym.make("CartPole-v1")
    walked = 0
    for reset in of_type(lines, "reset"):
        if "rng" not in reset and "seed" not in reset:
            # Begun in another process: the episodes before it lead there.
            continue
        if "rng" in reset:
            bare.unwrapped.np_random.bit_generator.state = reset["rng"]
        observation, _ = bare.reset(seed=reset.get("seed"))
        np.testing.assert_array_equal(observation, column(reset["obs"])[0])
        actions = whole(lines, reset["episode_id"], "action")
        observations = whole(lines, reset["episode_id"], "obs")
        for action, expected in zip(actions, observations, strict=True):
            np.testing.assert_array_equal(bare.step(action)[0], expected)
        walked += 1
    assert walked == (len(of_type(lines, "reset")) if kind is SyncVectorEnv else SLOTS)


def test_a_vector_env_that_is_one_array_is_recorded_from_outside(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = gym.make_vec("CartPole-v1", num_envs=SLOTS, vectorization_mode="vector_entry_point")
    recorded = listener.wrap(env)
    watched = RecordEpisodeStatistics(recorded)
    watched.reset(seed=2)
    expected = drive(watched, AutoresetMode.NEXT_STEP, 200)
    lines = listener.lines()
    episodes = [
        (emitted["slot"], emitted["return"], emitted["steps"]) for emitted in of_type(lines, "episode")
    ]
    assert episodes == expected
    with pytest.raises(RuntimeError, match="out of reach"):
        recorded.snapshot()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3"])
def test_restored_envs_follow_those_that_were_not_disturbed(mode: AutoresetMode, env_id: str) -> None:
    env = wrapped(Run({}), make(SyncVectorEnv, mode, env_id), None)
    env.reset()
    moves = np.random.default_rng(1).integers(0, 2, (140, SLOTS))
    taken: list[tuple[int, Any]] = []
    given: list[Any] = []
    for at, actions in enumerate(moves):
        # Some in mid-episode, some where an episode has just ended, some right after a reset.
        if at % 7 == 0:
            taken.append((at, json.loads(json.dumps(env.snapshot()))))
        given.append(env.step(actions)[:4])
    for at, snapshots in taken:
        fresh = wrapped(Run({}), make(SyncVectorEnv, mode, env_id), None)
        fresh.restore(snapshots)
        for actions, expected in zip(moves[at:], given[at:], strict=True):
            for one, two in zip(fresh.step(actions)[:4], expected, strict=True):
                np.testing.assert_array_equal(one, two)
