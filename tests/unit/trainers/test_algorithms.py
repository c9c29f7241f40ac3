"""The nouns that the built-in algorithms share, and the sums inside them."""

from __future__ import annotations

import dataclasses
import io
import os
import random
import time
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from runspine.trainers.builtin import dqn, qlearning
from runspine.trainers.builtin.checkpoints import (
    KEEP,
    KEEP_SECONDS,
    Checkpoints,
    CheckpointUnusableError,
    load,
)
from runspine.trainers.builtin.curve import draw
from runspine.trainers.builtin.envs import Envs, EnvUnfitError, actor, flattener, make
from runspine.trainers.builtin.history import COLUMNS, TrainingHistory
from runspine.trainers.builtin.normalisation import ObservationScale, RewardScale, RunningMoments
from runspine.trainers.builtin.packing import pack, unpack
from runspine.trainers.builtin.randomness import Randomness
from runspine.trainers.builtin.ranges import Range, range_violations
from runspine.trainers.builtin.replay_buffer import ReplayBuffer
from runspine.trainers.builtin.sac import Actor

CPU = torch.device("cpu")


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def through_a_file(state: Any) -> Any:
    """As a checkpoint keeps it: tensors and plain types alone."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        f32([-0.0, np.nan, np.inf]),
        np.zeros((0, 4), np.float32),
    ],
)
def test_a_packed_array_comes_back_bit_for_bit(array: Any) -> None:
    back = unpack(through_a_file(pack(array)))
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    back[...] = 0  # and may be written to


def fill(buffer: ReplayBuffer, count: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=3).astype(np.float32)
    for i in range(count):
        after = rng.normal(size=3).astype(np.float32)
        ended = i % 7 == 6
        buffer.add(obs, after, np.asarray(i % 2), float(i), ended)
        obs = rng.normal(size=3).astype(np.float32) if ended else after


@pytest.mark.parametrize("count", [0, 1, 5, 20, 33])
def test_a_replay_buffer_comes_back_whole_whether_or_not_it_was_full(count: int) -> None:
    buffer, back = (ReplayBuffer(20, 3, np.zeros((), np.int64), CPU) for _ in range(2))
    fill(buffer, count)
    back.load_state_dict(through_a_file(buffer.state_dict()))
    assert (back.size, back.position) == (buffer.size, buffer.position)
    for name, data in buffer._data.items():
        assert data[: buffer.size].tobytes() == back._data[name][: buffer.size].tobytes(), name


def test_a_replay_buffer_keeps_apart_what_only_looks_equal() -> None:
    buffer, back = (ReplayBuffer(4, 1, np.zeros((), np.int64), CPU) for _ in range(2))
    buffer.add(f32([1.0]), f32([0.0]), np.asarray(0), 0.0, False)
    buffer.add(f32([-0.0]), f32([1.0]), np.asarray(0), 0.0, False)
    back.load_state_dict(through_a_file(buffer.state_dict()))
    assert np.signbit(back._data["next_obs"][:2]).ravel().tolist() == [False, False]


def test_a_replay_buffer_stores_successive_observations_once() -> None:
    buffer = ReplayBuffer(1000, 3, np.zeros((), np.int64), CPU)
    fill(buffer, 700)
    state = buffer.state_dict()
    # One in seven ends an episode; the newest has no successor yet.
    assert len(unpack(state["odd"])) <= 700 // 7 + 1


def test_a_replay_buffer_of_another_size_is_refused() -> None:
    state = ReplayBuffer(20, 3, np.zeros((), np.int64), CPU).state_dict()
    with pytest.raises(ValueError, match="20 transitions, not 30"):
        ReplayBuffer(30, 3, np.zeros((), np.int64), CPU).load_state_dict(state)


def test_running_moments_are_those_of_all_rows_together() -> None:
    rng, moments = np.random.default_rng(1), RunningMoments((3,))
    batches = [rng.normal(5, 2, size=(n, 3)) for n in (1, 4, 50, 300)]
    for batch in batches:
        moments.update(batch)
    rows = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-3)


def test_scales_that_are_off_change_nothing_and_those_that_are_on_come_back_from_a_file() -> None:
    obs = f32([[1.0, 50.0], [3.0, 90.0]])
    assert ObservationScale(2, on=False)(obs) is obs
    scale, back = ObservationScale(2, on=True), ObservationScale(2, on=True)
    for _ in range(50):
        scale.update(obs)
    back.load_state_dict(through_a_file(scale.state_dict()))
    np.testing.assert_allclose(scale(obs), [[-1, -1], [1, 1]], atol=1e-2)
    assert scale(obs).tobytes() == back(obs).tobytes()
    assert np.abs(scale(f32([[1e6, 0]]))).max() == 10


def test_rewards_are_scaled_by_the_deviation_of_the_return() -> None:
    scale = RewardScale(1, gamma=0.0, on=True)
    rng = np.random.default_rng(2)
    scaled = [scale(rng.normal(0, 100, 1), np.array([False]))[0] for _ in range(3000)]
    assert 0.8 < float(np.std(scaled[1000:])) < 1.2
    assert RewardScale(1, gamma=0.9, on=False)(f32([7.0]), np.array([True]))[0] == 7.0


def draw_from_all(own: Randomness) -> list[float]:
    return [random.random(), float(np.random.random()), torch.rand(1).item(), own.numpy.random()]


def test_every_generator_goes_on_where_it_was_saved() -> None:
    own = Randomness(7)
    draw_from_all(own)
    np.random.normal()  # leaves a spare value behind, which must be kept as well
    state = through_a_file(own.state_dict())
    expected = draw_from_all(own)
    other = Randomness(8)
    other.load_state_dict(state)
    assert draw_from_all(other) == expected


def test_seeds_beyond_32_bits_are_taken() -> None:
    assert draw_from_all(Randomness(2**63 - 1)) == draw_from_all(Randomness(2**63 - 1))


def test_a_checkpoint_is_due_every_tenth_of_the_run_by_default(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1000)
    due = []
    for step in range(1, 1001):
        if checkpoints.due(step):
            due.append(step)
            checkpoints.begin(step)
    assert due == list(range(100, 1001, 100))


def test_a_resumed_run_saves_at_the_same_steps_as_an_undisturbed_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1000, every_steps=300)
    checkpoints.begin(450)
    assert [step for step in (599, 600) if checkpoints.due(step)] == [600]


def test_a_checkpoint_can_be_due_by_time(tmp_path: Path) -> None:
    assert not Checkpoints(tmp_path, 1000, every_seconds=600).due(999)
    checkpoints = Checkpoints(tmp_path, 1000, every_seconds=0.05)
    time.sleep(0.06)
    assert checkpoints.due(1)


def test_old_checkpoints_go_only_when_newer_ones_are_there_and_they_have_had_time(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1000)
    for step in range(1, 6):
        path = checkpoints.save(step, {})
        assert path.exists()
    assert len(list(tmp_path.iterdir())) == 5  # too young to go
    long_ago = time.time() - 2 * KEEP_SECONDS
    for path in tmp_path.iterdir():
        os.utime(path, (long_ago, long_ago))
    checkpoints.save(6, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{n}.pt" for n in (4, 5, 6)]
    assert KEEP == 3


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_ones_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1000)
    checkpoints.save(1, {"x": 1})

    def fail(file: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoints.write(2, ".pt", fail)
    assert not (tmp_path / "step-2.pt").exists()
    assert load(tmp_path / "step-1.pt", CPU)["x"] == 1


class Trap:
    def __reduce__(self) -> Any:
        return os.system, ("echo trapped",)


@pytest.mark.parametrize("content", [b"", b"nothing of ours", None])
def test_a_checkpoint_that_is_none_or_would_run_code_is_refused(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "x.pt"
    if content is None:
        torch.save({"format": 1, "trap": Trap()}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(CheckpointUnusableError, match="cannot be read"):
        load(path, CPU)


def test_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(1)}, tmp_path / "x.pt")
    with pytest.raises(CheckpointUnusableError, match="not one of ours"):
        load(tmp_path / "x.pt", CPU)


def test_history_counts_the_last_hundred_and_survives_a_file() -> None:
    history = TrainingHistory(1000)
    for step in range(1, 1001):
        history.add(step, float(step))
    assert (history.mean, history.best, history.episodes) == (950.5, 1000.0, 1000)
    back = TrainingHistory(1)
    back.load_state_dict(through_a_file(history.state_dict()))
    assert vars(back) == vars(history)
    assert back.curve() == history.curve()


def test_a_curve_rises_from_its_lowest_to_its_highest_point() -> None:
    lines = draw([0.0, 5.0, 10.0], height=2).splitlines()
    assert lines[:2] == ["10 ┤ ▁█", " 0 ┤▁██"]
    assert draw([float("nan")]) == "no episode ended: no curve"
    assert len(TrainingHistory(10).curve()) < COLUMNS


def test_a_curve_shows_a_gap_where_no_episode_ended() -> None:
    lines = draw([1.0, float("nan"), 1.0], height=1).splitlines()
    assert lines[0].endswith("┤▁ ▁")


@dataclasses.dataclass
class Bounded:
    gamma: Annotated[float, Range(0, 1)] = 0.9
    count: Annotated[int, Range(1)] = 1
    limit: Annotated[float, Range(0)] | None = None


def test_what_is_out_of_range_is_named_as_on_the_command_line() -> None:
    assert range_violations(Bounded()) == []
    assert range_violations(Bounded(gamma=1.5, count=0)) == [
        "--gamma: 1.5 is out of range: at most 1",
        "--count: 0 is out of range: at least 1",
    ]
    assert range_violations(Bounded(gamma=float("nan"))) != []


def test_actions_are_counted_from_the_spaces_first_and_clipped_to_its_bounds() -> None:
    assert actor(spaces.Discrete(3, start=5))(np.int64(2)) == 7
    box = spaces.Box(-1, 1, (2,), np.float32)
    given = actor(box)(np.array([-3, 0.5]))
    assert given.dtype == np.float32
    assert given.tolist() == [-1, 0.5]
    with pytest.raises(EnvUnfitError, match="neither Discrete nor Box"):
        actor(spaces.MultiBinary(2))


def test_observations_become_rows_of_floats() -> None:
    assert flattener(spaces.Discrete(3))(1).tolist() == [0, 1, 0]
    assert flattener(spaces.Box(0, 1, (2, 2)))(np.eye(2)).tolist() == [1, 0, 0, 1]
    with pytest.raises(EnvUnfitError, match="no fixed size"):
        flattener(spaces.Sequence(spaces.Discrete(2)))


@pytest.mark.parametrize(
    ("env_id", "kwargs", "why"),
    [
        ("CartPole-v1", "[1]", "JSON object"),
        ("CartPole-v1", "{", "not JSON"),
        ("CartPol-v1", "{}", "CartPole"),
        ("CartPole-v1", '{"no_such": 1}', "no_such"),
    ],
)
def test_an_env_that_cannot_be_made_is_refused_with_the_reason(env_id: str, kwargs: str, why: str) -> None:
    with pytest.raises(EnvUnfitError, match=why):
        make(env_id, kwargs)


def test_envs_begin_a_new_episode_in_the_step_that_ends_one() -> None:
    envs = Envs("CartPole-v1", '{"max_episode_steps": 5}', 2, seed=3)
    envs.reset()
    ended = []
    for _ in range(5):
        seen = envs.step(np.zeros(2, np.int64))
        ended += seen.episodes
    assert [(episode.total, episode.length) for episode in ended] == [(5.0, 5)] * 2
    assert seen.truncated.tolist() == [True, True]
    assert set(seen.final) == {0, 1}
    # A fresh CartPole stands nearly still; one pushed left five times does not.
    assert abs(seen.obs[0][1]) < 0.06 < abs(seen.final[0][1])
    envs.close()


def test_envs_are_put_back_into_the_middle_of_their_episodes() -> None:
    first, second = (Envs("FrozenLake-v1", "{}", 2, seed=5, flat=False) for _ in range(2))
    first.reset()
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 4, (60, 2))
    for pair in actions[:37]:
        first.step(pair)
    second.load_state_dict(through_a_file(first.state_dict()))
    for pair in actions[37:]:
        one, other = first.step(pair), second.step(pair)
        assert one.obs.tolist() == other.obs.tolist()
        assert one.episodes == other.episodes
    first.close()
    second.close()


def test_exploration_falls_in_a_straight_line_and_then_stays() -> None:
    args = dqn.Args(total_timesteps=100, start_e=1.0, end_e=0.2, exploration_fraction=0.5)
    assert [round(dqn.epsilon(args, step), 3) for step in (0, 25, 50, 100)] == [1.0, 0.6, 0.2, 0.2]
    at_once = qlearning.Args(total_timesteps=100, end_e=0.1, exploration_fraction=0.0)
    assert qlearning.epsilon(at_once, 1) == pytest.approx(0.1)


def test_the_tabular_learning_rate_goes_from_first_to_last() -> None:
    args = qlearning.Args(total_timesteps=100, learning_rate=0.4, end_learning_rate=0.1)
    assert [round(qlearning.learning_rate(args, step), 3) for step in (0, 50, 100)] == [0.4, 0.2, 0.1]
    to_zero = qlearning.Args(total_timesteps=100, learning_rate=0.4, end_learning_rate=0.0)
    assert qlearning.learning_rate(to_zero, 50) == pytest.approx(0.2)


def test_sac_knows_the_density_of_its_squashed_actions() -> None:
    torch.manual_seed(0)
    policy = Actor(3, spaces.Box(-2, 4, (2,), np.float32)).double()
    obs = torch.randn(500, 3, dtype=torch.float64)
    action, density = policy(obs)
    assert ((action > -2) & (action < 4)).all()
    mean, spread = policy.net(obs).chunk(2, dim=1)
    std = (-5 + 3.5 * (torch.tanh(spread) + 1)).exp()
    torch_own = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(mean, std),
        [torch.distributions.TanhTransform(), torch.distributions.AffineTransform(1.0, 3.0)],
    )
    expected = torch_own.log_prob(action).sum(dim=1)  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(density.detach(), expected.detach(), rtol=1e-3, atol=1e-3)


def test_an_env_of_gymnasiums_own_is_flat_when_it_is_a_table() -> None:
    envs = Envs("FrozenLake-v1", "{}", 1, seed=1)
    envs.reset()
    assert envs.obs.tolist() == [[1.0] + [0.0] * 15]
    assert isinstance(gym.make("FrozenLake-v1").observation_space, spaces.Discrete)
    envs.close()
