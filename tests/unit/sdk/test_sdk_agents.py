"""Several agents: each has its steps and its return on record, and an episode replays exactly."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic.rps import rps
from pettingzoo.classic.tictactoe import tictactoe

from runspine.replay import EpisodeRecord, Replay
from runspine.replay.env_factory import EnvMissingError
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.samples.batched_envs import Archive
from tests.kit.samples.sdk import Listener

Returns = dict[str, float]


class Herd(ParallelEnv[Any, Any, Any]):  # type: ignore[misc]
    """Animals that leave one after another, with rewards drawn from the env's generator."""

    metadata = {"name": "herd_v0"}  # noqa: RUF012

    def __init__(self, size: int = 3) -> None:
        self.possible_agents = [f"animal_{number}" for number in range(size)]
        self._ezpickle_kwargs = {"size": size}
        self.np_random, _ = gym.utils.seeding.np_random(7)

    def observation_space(self, agent: Any) -> Any:
        return gym.spaces.Box(-10, 10, (2,), np.float32)

    def action_space(self, agent: Any) -> Any:
        return gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        if seed is not None:
            self.np_random, _ = gym.utils.seeding.np_random(seed)
        self.agents, self._at = list(self.possible_agents), 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        self._at += 1
        rewards = {agent: float(actions[agent].sum() + self.np_random.normal()) for agent in self.agents}
        ended = {agent: self._at >= 5 * (place + 1) for place, agent in enumerate(self.possible_agents)}
        over = {agent: ended[agent] for agent in self.agents}
        seen, late = self._seen(), dict.fromkeys(self.agents, False)
        self.agents = [agent for agent in self.agents if not over[agent]]
        for action in actions.values():
            action[:] = 0
        return seen, rewards, over, late, {agent: {} for agent in rewards}

    def _seen(self) -> Any:
        return {agent: self.np_random.normal(size=2).astype(np.float32) for agent in self.agents}


class Duel(AECEnv[Any, Any, Any]):  # type: ignore[misc]
    """The second is paid before it first acts; who is hit leaves without another word."""

    metadata = {"name": "duel_v0"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["first", "second"]
        self.np_random, _ = gym.utils.seeding.np_random(3)

    def observation_space(self, agent: Any) -> Any:
        return gym.spaces.Discrete(100)

    def action_space(self, agent: Any) -> Any:
        return gym.spaces.Discrete(10)

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self.agents, self.agent_selection = list(self.possible_agents), "first"
        self._at, self._cumulative_rewards = 0, dict.fromkeys(self.agents, 0.0)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}

    def observe(self, agent: Any) -> int:
        return self._at

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._at += 1
        self._cumulative_rewards[agent] = 0.0
        other = self.possible_agents[agent == "first"]
        self.rewards = {agent: 0.5, other: float(self.np_random.integers(5))}
        if action == 9 or self._at > 40:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = other
        self._accumulate_rewards()


def play_parallel(env: Any, dice: np.random.Generator, seed: int | None) -> Returns:
    env.reset(seed=seed)
    found: Returns = collections.defaultdict(float)
    while env.agents:
        spaces = {agent: env.action_space(agent) for agent in env.agents}
        actions = {
            agent: dice.uniform(-1, 1, 2).astype(np.float32)
            if isinstance(space, gym.spaces.Box)
            else int(dice.integers(space.n))
            for agent, space in spaces.items()
        }
        for agent, reward in env.step(actions)[1].items():
            found[agent] += reward
    return found


def play_aec(env: Any, dice: np.random.Generator, seed: int | None) -> Returns:
    env.reset(seed=seed)
    found: Returns = collections.defaultdict(float)
    for agent in env.agent_iter():
        seen, reward, terminated, truncated, _ = env.last()
        found[agent] += reward
        if terminated or truncated:
            env.step(None)
        else:
            allowed = np.flatnonzero(seen["action_mask"]) if isinstance(seen, dict) else np.arange(10)
            if env.action_space(agent).n < 9:
                allowed = np.arange(env.action_space(agent).n)
            env.step(int(dice.choice(allowed)))
    return found


ENVS = {
    "rps, parallel": (lambda: rps.parallel_env(num_actions=5, max_cycles=12), play_parallel),
    "rps, aec": (lambda: rps.env(max_cycles=12), play_aec),
    "tictactoe": (tictactoe.env, play_aec),
    "herd": (lambda: Herd(4), play_parallel),
    "duel": (Duel, play_aec),
}


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSPINE_ENV_MODULES", "tests")


def recorded(folder: Path, name: str, frames: str = "1", episodes: int = 5) -> tuple[Archive, list[Returns]]:
    listener, dice = Listener(folder, frames=frames), np.random.default_rng(4)
    make, play = ENVS[name]
    env = listener.wrap(make())
    played = [play(env, dice, 11 if number == 0 else None) for number in range(episodes)]
    env.close()
    listener.close()
    assert listener.run.dropped == 0, listener.run.pipe.trouble
    archive = Archive(listener.data)
    assert archive.assembler.counts.malformed == 0
    return archive, played


def episode(archive: Archive, number: int) -> EpisodeRecord:
    [reset] = [each for each in archive.resets if each.episode_id == f"0-{number}"]
    blocks = [block for block in archive.blocks if block.episode_id == reset.episode_id]
    made = [each for batch in archive.batches for each in batch.envs.made]
    assert len(made) == 1
    answer = GetEpisodeResponse(env=made[0], reset=reset, blocks=blocks)
    answer.entry.episode.episode_id = reset.episode_id
    return EpisodeRecord(answer)


@pytest.mark.parametrize("frames", ["1", ""], ids=["frames", "lines"])
@pytest.mark.parametrize("name", ENVS)
def test_returns_of_agents_are_those_of_the_env_and_every_step_is_there(
    tmp_path: Path, name: str, frames: str
) -> None:
    archive, played = recorded(tmp_path, name, frames)
    found: dict[int, Returns] = collections.defaultdict(dict)
    for each in archive.episodes:
        found[int(each.episode_id.split("-")[1])][each.agent_id] = getattr(each, "return")
    assert [found[number] for number in range(len(played))] == [dict(each) for each in played]
    for each in archive.episodes:
        own = [
            block
            for block in archive.blocks
            if (block.episode_id, block.agent_id) == (each.episode_id, each.agent_id)
        ]
        assert sum(block.count for block in own) == each.steps
        assert sum(map(len, (block.flags.strip(b"\0") for block in own))) == (each.steps > 0)


@pytest.mark.parametrize("name", ENVS)
def test_an_episode_of_several_agents_replays_exactly(tmp_path: Path, name: str) -> None:
    archive, _ = recorded(tmp_path, name)
    for number in (4, 0, 2):
        record = episode(archive, number)
        verdict = Replay(record).verdict
        assert verdict.divergence is None
        longest = max(EpisodeRecord(record.response, agent).length for agent in record.agents)
        assert verdict.steps >= longest


@pytest.mark.parametrize("name", ENVS)
def test_a_replay_with_another_action_or_reward_diverges_and_names_the_agent(
    tmp_path: Path, name: str
) -> None:
    archive, _ = recorded(tmp_path, name)
    record = episode(archive, 3)
    block = record.response.blocks[-1]
    values = np.frombuffer(block.reward.data, "<f8").copy()
    values[-1] += 1
    block.reward.data = values.tobytes()
    divergence = Replay(EpisodeRecord(record.response)).verdict.divergence
    assert divergence is not None
    assert divergence.field == f"reward of {block.agent_id}"


def test_an_episode_that_the_trainer_leaves_keeps_what_was_done(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1")
    env = listener.wrap(rps.env(max_cycles=50))
    for _ in range(3):
        env.reset(seed=1)
        for _ in range(7):
            env.step(0)
    env.close()
    listener.close()
    archive = Archive(listener.data)
    assert archive.assembler.counts.steps == 21
    assert archive.assembler.counts.episodes == 0
    assert Replay(episode(archive, 0)).verdict.exact


def test_an_env_that_fails_when_it_is_asked_does_not_end_the_training(tmp_path: Path) -> None:
    class Silent(Duel):
        def observe(self, agent: Any) -> int:
            raise KeyError(agent)

        def last(self, observe: bool = True) -> Any:
            raise RuntimeError("no")

    listener = Listener(tmp_path, frames="1")
    env = listener.wrap(Silent())
    env.reset()
    env.step(1)
    env.step(9)
    env.close()
    listener.close()
    assert env.recorder.failure == "RuntimeError: no"


@pytest.mark.parametrize(
    "entry_point", ["os:system", "pettingzoo:__version__", "pettingzoo.utils:agent_selector"]
)
def test_a_record_cannot_have_anything_else_called(tmp_path: Path, entry_point: str) -> None:
    archive, _ = recorded(tmp_path, "rps, aec")
    record = episode(archive, 0)
    record.response.env.entry_point = entry_point
    with pytest.raises(EnvMissingError):
        _ = Replay(EpisodeRecord(record.response)).verdict
