"""Episodes recorded by the SDK, replayed in real envs: exact, or with the first divergence reported."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import tests.kit.samples.envs  # noqa: F401 - registers its envs
from runspine.errors import RunNotFoundError
from runspine.replay import DivergedError, EnvMissingError, EpisodeRecord, Replay, Way
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.samples.episodes import other_action, random_play, recorded, tampered
from tests.kit.samples.sdk import Listener


def played(
    folder: Path, env_id: str, episodes: int = 3, longest: int = 60, **kwargs: Any
) -> list[EpisodeRecord]:
    emitted = recorded(folder, lambda by: random_play(by.wrap(gym.make(env_id, **kwargs)), episodes, longest))
    assert len(emitted) == episodes
    return [EpisodeRecord(each) for each in emitted]


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("CartPole-v1", {}),
        ("LunarLander-v3", {"enable_wind": True}),
        ("LunarLander-v3", {"continuous": True}),
        ("Pendulum-v1", {"g": 9.81}),
        ("Acrobot-v1", {}),
        ("MountainCarContinuous-v0", {}),
        ("FrozenLake-v1", {"is_slippery": True}),
        ("FrozenLake-v1", {"desc": None, "map_name": None}),
        ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True}),
        ("Blackjack-v1", {}),
        ("CliffWalking-v1", {"is_slippery": True}),
    ],
)
def test_later_episodes_of_an_env_are_exact_and_a_wrong_action_is_found_at_its_step(
    tmp_path: Path, env_id: str, kwargs: dict[str, Any]
) -> None:
    dice = np.random.default_rng(5)
    for record in played(tmp_path / "run", env_id, **kwargs)[1:]:
        replay = Replay(record)
        assert replay.verdict.exact, replay.verdict.divergence
        assert replay.verdict.steps == record.length > 0
        assert replay.verdict.changed == []
        step = int(dice.integers(record.length))
        action = other_action(replay, step)
        if action is None:
            continue  # where every action gives the same, none is wrong
        wrong = Replay(EpisodeRecord(tampered(record.response, step, action))).verdict
        assert wrong.divergence is not None
        assert wrong.divergence.step == wrong.steps == step


def test_an_env_that_carries_a_world_over_its_resets_is_brought_there(tmp_path: Path) -> None:
    verdicts = [Replay(record).verdict for record in played(tmp_path, "BipedalWalker-v3", 5)]
    assert all(verdict.exact for verdict in verdicts)
    assert any(verdict.way.resets for verdict in verdicts)


def test_sticky_actions_of_an_emulator_come_out_again(tmp_path: Path) -> None:
    ale_py = pytest.importorskip("ale_py")
    gym.register_envs(ale_py)
    for record in played(tmp_path, "ALE/Breakout-v5", 3, 30):
        assert record.start.state is not None
        assert set(record.kinds) == {"hash"}
        assert Replay(record).verdict.exact


def test_an_env_stands_where_a_step_comes_next_and_goes_on_as_it_had(tmp_path: Path) -> None:
    record = played(tmp_path, "LunarLander-v3", 2)[1]
    replay = Replay(record)
    for step in (0, 1, 17, record.length - 1):
        env = replay.env_at(step)
        observation, reward, *_ = env.step(record.action(step))
        np.testing.assert_array_equal(observation, record.step(step).observation)
        assert reward == record.rewards[step]
        env.close()
    replay.env_at(record.length).close()
    with pytest.raises(IndexError, match=f"of an episode with {record.length}"):
        replay.env_at(record.length + 1)
    wrong = tampered(record.response, 5, (record.action(5) + 1) % 4)
    Replay(EpisodeRecord(wrong)).env_at(5).close()
    with pytest.raises(DivergedError, match="at step 5"):
        Replay(EpisodeRecord(wrong)).env_at(6)


def test_moments_come_one_at_a_time_as_the_env_gave_them(tmp_path: Path) -> None:
    record = played(tmp_path, "CartPole-v1", 2)[1]
    moments = Replay(record).moments()
    first = next(moments)
    assert (first.step, first.divergence) == (None, None)
    rest = list(moments)
    assert [moment.step for moment in rest] == list(range(record.length))
    assert rest[-1].terminated
    assert sum(moment.reward for moment in rest) == record.rewards.sum()


def test_pythons_numbers_are_tried_where_numpys_give_something_else(tmp_path: Path) -> None:
    def play(listener: Listener) -> None:
        env = listener.wrap(gym.make("ReplayScalar-v0"))
        env.reset(seed=1)
        for number in range(20):
            env.step(0.1 + number / 7)

    (emitted,) = recorded(tmp_path, play)
    verdict = Replay(EpisodeRecord(emitted)).verdict
    assert verdict.exact
    assert verdict.way == Way(python=True)


def test_structured_actions_and_observations_are_replayed(tmp_path: Path) -> None:
    for capture in ("full", "hash", "none"):
        emitted = recorded(
            tmp_path, lambda by: random_play(by.wrap(gym.make("ReplayStructured-v0")), 2), capture=capture
        )
        record = EpisodeRecord(emitted[1])
        assert set(record.kinds) == {{"full": "json", "hash": "hash", "none": "none"}[capture]}
        assert Replay(record).verdict.exact
        block = emitted[1].blocks[0]
        block.action_json[3] = block.action_json[3].replace('"jump":', '"jump":3,"was":')
        found = Replay(EpisodeRecord(emitted[1])).verdict.divergence
        assert found is not None
        assert (found.step, found.field) == (3, "error")


def test_wrappers_inside_the_record_are_made_again(tmp_path: Path) -> None:
    def play(listener: Listener) -> None:
        inner = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
        random_play(listener.wrap(gym.wrappers.FlattenObservation(inner)), 2, 30)

    record = EpisodeRecord(recorded(tmp_path, play)[1])
    assert Replay(record).verdict.exact
    assert "RescaleAction" in record.env.wrappers_json


def test_a_wrapper_with_a_function_inside_cannot_be_made_again_and_is_named(tmp_path: Path) -> None:
    def play(listener: Listener) -> None:
        inner = gym.make("CartPole-v1")
        halved = gym.wrappers.TransformObservation(inner, lambda seen: seen / 2, inner.observation_space)
        random_play(listener.wrap(halved), 1, 5)

    (emitted,) = recorded(tmp_path, play)
    with pytest.raises(EnvMissingError, match="CartPole-v1 was recorded inside TransformObservation"):
        _ = Replay(EpisodeRecord(emitted)).verdict


def test_a_record_cannot_have_anything_called_that_is_no_wrapper(tmp_path: Path) -> None:
    emitted = played(tmp_path / "run", "CartPole-v1", 1)[0].response
    mark = tmp_path / "mark"
    kwargs = {"dict": [["name", str(mark)], ["mode", 511]]}
    emitted.env.wrappers_json = json.dumps([{"entry_point": "os:makedirs", "kwargs": kwargs}])
    with pytest.raises(EnvMissingError, match="recorded with os, which is not one of the env packages"):
        _ = Replay(EpisodeRecord(emitted)).verdict
    emitted.env.wrappers_json = json.dumps([{"entry_point": "gymnasium:make", "kwargs": kwargs}])
    with pytest.raises(EnvMissingError, match="gymnasium:make as a wrapper, which is none"):
        _ = Replay(EpisodeRecord(emitted)).verdict
    assert not mark.exists()


def test_an_episode_gone_on_with_after_a_resume_is_exact_as_a_whole(tmp_path: Path) -> None:
    kept: dict[str, Any] = {}

    def first(listener: Listener) -> None:
        env = listener.wrap(gym.make("LunarLander-v3"))
        random_play(env, 1, 70)
        env = listener.wrap(gym.make("LunarLander-v3"))
        env.action_space.seed(8)
        env.reset()
        for _ in range(20):
            env.step(env.action_space.sample())
        kept["snapshot"] = env.snapshot()

    def second(listener: Listener) -> None:
        env = listener.wrap(gym.make("LunarLander-v3"))
        env.restore(kept["snapshot"])
        for _ in range(25):
            env.step(env.action_space.sample())

    begun, gone_on = recorded(tmp_path, first)[-1], recorded(tmp_path, second)[0]
    assert begun.reset.episode_id == gone_on.reset.episode_id
    gone_on.blocks.MergeFrom(begun.blocks)
    gone_on.blocks.sort(key=lambda block: block.first_step)
    record = EpisodeRecord(gone_on)
    assert record.length == 45
    assert Replay(record).verdict.exact


def test_an_episode_without_a_step_is_its_reset(tmp_path: Path) -> None:
    def play(listener: Listener) -> None:
        listener.wrap(gym.make("CartPole-v1")).reset(seed=2)

    (emitted,) = recorded(tmp_path, play)
    replay = Replay(EpisodeRecord(emitted))
    assert (replay.verdict.exact, replay.verdict.steps) == (True, 0)
    assert [moment.step for moment in replay.moments()] == [None]


def test_steps_without_a_reset_are_reported_as_a_divergence(tmp_path: Path) -> None:
    emitted = played(tmp_path, "CartPole-v1", 2)[1].response
    emitted.ClearField("reset")
    record = EpisodeRecord(emitted)
    assert not record.start.is_known
    found = Replay(record).verdict.divergence
    assert found is not None
    assert found.step == 0


def test_a_time_limit_taken_away_stays_away(tmp_path: Path) -> None:
    (record,) = played(tmp_path, "Pendulum-v1", 1, 230, max_episode_steps=-1)
    assert record.length == 230
    assert Replay(record).verdict.exact


def test_episodes_seen_from_outside_are_reached_through_the_earlier_ones(tmp_path: Path) -> None:
    """A vector env that hides its envs: only the first reset's seed is on record."""

    def play(listener: Listener) -> None:
        envs = gym.make_vec("LunarLander-v3", num_envs=2, vectorization_mode="async")
        envs = listener.wrap(envs)
        envs.action_space.seed(1)
        envs.reset(seed=5)
        for _ in range(400):
            envs.step(envs.action_space.sample())
        envs.close()

    slot = [EpisodeRecord(emitted) for emitted in recorded(tmp_path, play) if emitted.reset.slot == 1]
    assert len(slot) > 2
    record = slot[2]
    assert not record.start.is_known
    lost = Replay(record).verdict
    assert lost.divergence is not None
    assert lost.divergence.step is None
    found = Replay(record, before=slot[:2]).verdict
    assert found.exact
    assert found.way.history


def test_randomness_outside_the_envs_generator_is_reported_as_a_divergence(tmp_path: Path) -> None:
    found = Replay(played(tmp_path, "ReplayCareless-v0", 2)[1]).verdict
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.field) == (0, "observation")


def test_other_packages_than_recorded_are_named(tmp_path: Path) -> None:
    emitted = played(tmp_path, "CartPole-v1", 2)[1].response
    emitted.env.versions["numpy"] = "1.26.4"
    emitted.env.versions["no-such-package"] = "1.0"
    verdict = Replay(EpisodeRecord(emitted)).verdict
    assert verdict.exact
    assert [(each.package, each.recorded) for each in verdict.changed] == [
        ("no-such-package", "1.0"),
        ("numpy", "1.26.4"),
    ]


def unmade(emitted: GetEpisodeResponse, env_id: str, entry_point: str = "") -> str:
    emitted.env.env_id, emitted.env.entry_point = env_id, entry_point
    with pytest.raises(EnvMissingError) as caught:
        _ = Replay(EpisodeRecord(emitted)).verdict
    return str(caught.value)


def test_the_error_of_an_env_that_cannot_be_made_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = played(tmp_path, "CartPole-v1", 1)[0].response
    assert "Did you mean 'CartPole-v1'" in unmade(emitted, "CartPole-v7")
    assert "pip install 'highway-env'" in unmade(emitted, "highway-v0", "highway_env.envs:HighwayEnv")
    emitted.env.versions["minigrid"] = "3.2.0"
    monkeypatch.setitem(sys.modules, "minigrid", None)
    known = {name: spec for name, spec in gym.registry.items() if not name.startswith("MiniGrid")}
    monkeypatch.setattr(gym, "registry", known)
    monkeypatch.setattr(gym.envs.registration, "registry", known)
    assert "pip install 'minigrid==3.2.0'" in unmade(emitted, "MiniGrid-Empty-5x5-v0")
    assert "PYTHONPATH" in unmade(emitted, "Own-v0", "nowhere_to_be_found.envs:Own")
    assert "the trainer's own script" in unmade(emitted, "Own-v0", "__main__:Own")
    assert "has no env" in unmade(emitted, "")
    emitted.env.kwargs_json = '{"no_such_argument": 1}'
    assert "no_such_argument" in unmade(emitted, "CartPole-v1")


def test_an_id_that_only_its_module_registers_is_found_by_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "code" / "far_envs"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "deep.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Far(CartPoleEnv): pass\n"
        "gym.register('Far-v0', entry_point='far_envs.deep:Far', max_episode_steps=9)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    importlib.import_module("far_envs.deep")
    (record,) = played(tmp_path / "run", "Far-v0", 1)
    gym.registry.pop("Far-v0")
    for name in ("far_envs", "far_envs.deep"):
        sys.modules.pop(name)
    assert Replay(record).verdict.exact
    gym.registry.pop("Far-v0")


def test_several_agents_are_not_taken_for_one(tmp_path: Path) -> None:
    emitted = played(tmp_path, "CartPole-v1", 1)[0].response
    other = emitted.blocks.add()
    other.CopyFrom(emitted.blocks[0])
    other.agent_id, other.flags = "second", b"\2" * other.count
    with pytest.raises(EnvMissingError, match="of 2 agents"):
        Replay(EpisodeRecord(emitted))
    assert (EpisodeRecord(emitted).flags[0], EpisodeRecord(emitted, "second").flags[0]) == (0, 2)
    with pytest.raises(RunNotFoundError, match="no agent 'third'"):
        EpisodeRecord(emitted, "third")
