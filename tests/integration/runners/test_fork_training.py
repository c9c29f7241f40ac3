"""Trainings that begin in the middle of a recorded episode: exactly there, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from runspine.play.fork import fork_point
from runspine.replay import EpisodeRecord, Replay
from runspine.trainers.builtin.envs import Envs, EnvUnfitError
from runspine.trainers.builtin.fork import Fork, fork_of
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.player import actors_in
from tests.kit.samples.episodes import answers, random_play, recorded, tampered
from tests.kit.training import Trainer, start

RUN = "01JCZW9T3N5Q8R7V2K4M6P0XYB"
NAME = f"fork:{RUN}:0"
LAKE = {"is_slippery": False}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file with a fork point, as the runner writes it."""

    def written(emitted: GetEpisodeResponse, step: int, *, every: bool = False) -> Path:
        point = fork_point(RUN, emitted, step)
        point.every = every
        path = tmp_path / "fork.point"
        path.write_bytes(point.SerializeToString())
        return path

    return written


def played(folder: Path, env_id: str, **kwargs: Any) -> GetEpisodeResponse:
    """An episode that chance has played."""
    return recorded(folder, lambda received: random_play(received.wrap(gymnasium.make(env_id, **kwargs)), 1))[
        0
    ]


def trained(folder: Path, path: Path, algo: str, *arguments: object) -> Trainer:
    words = [f"runspine.trainers.builtin.{algo}", *map(str, arguments)]
    return start(folder, words, variables={"RUNSPINE_FORK": str(path)})


def assert_begins_as(old: EpisodeRecord, new: EpisodeRecord, steps: int) -> None:
    for step in range(steps):
        one, other = old.step(step), new.step(step)
        assert one._replace(observation=None) == other._replace(observation=None)
        assert bytes(memoryview(one.observation)) == bytes(memoryview(other.observation))


def test_ppo_goes_on_from_the_very_step_and_its_other_envs_begin_as_always(
    tmp_path: Path, write: Write
) -> None:
    original = played(tmp_path / "a", "CartPole-v1")
    at = int(original.entry.episode.steps) - 2
    sizes = ("--num-envs", 2, "--num-steps", 64, "--total-timesteps", 256)
    trainer = trained(tmp_path / "b", write(original, at), "ppo", "--env-id", "CartPole-v1", *sizes).succeed()
    found = answers(trainer.emitted)
    first = next(each for each in found if each.reset.slot == 0)
    assert_begins_as(EpisodeRecord(original), EpisodeRecord(first), at)
    assert actors_in(first) == [(NAME, at), ("", EpisodeRecord(first).length - at)]
    assert Replay(EpisodeRecord(first)).verdict.exact
    assert all(actors_in(each)[0][0] == "" for each in found if each is not first and each.blocks)
    steps = sum(block.count for each in found for block in each.blocks)
    assert steps == at + 256, "what was learnt from, and the way there"
    received = f"{NAME} replayed exactly: the first episode of slot 0 begins after its first {at} steps"
    assert received in trainer.output
    # What is charted of the episode is what the record has of it.
    assert getattr(first.entry.episode, "return") in {value for _, value in trainer.returns()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("algo", "env_id", "kwargs", "sizes"),
    [
        ("dqn", "CartPole-v1", {}, ("--learning-starts", 50, "--total-timesteps", 300)),
        ("sac", "Pendulum-v1", {}, ("--learning-starts", 50, "--total-timesteps", 100)),
        (
            "qlearning",
            "FrozenLake-v1",
            LAKE,
            ("--total-timesteps", 300),
        ),
    ],
)
def test_every_algorithm_begins_there_and_completes(
    algo: str, env_id: str, kwargs: dict[str, Any], sizes: tuple[object, ...], tmp_path: Path, write: Write
) -> None:
    original = played(tmp_path / "a", env_id, **kwargs)
    at = EpisodeRecord(original).length // 2
    trainer = trained(tmp_path / "b", write(original, at), algo, "--env-id", env_id, *sizes).succeed()
    found = answers(trainer.emitted)
    assert_begins_as(EpisodeRecord(original), EpisodeRecord(found[0]), at)
    assert Replay(EpisodeRecord(found[0])).verdict.exact
    assert trainer.checkpoints


@pytest.mark.long
def test_every_episode_begins_there_when_that_is_asked_for(tmp_path: Path, write: Write) -> None:
    original = played(tmp_path / "a", "FrozenLake-v1", **LAKE)
    assert EpisodeRecord(original).length > 2
    arguments = ("--env-id", "FrozenLake-v1", "--total-timesteps", 60)
    path = write(original, 2, every=True)
    trainer = trained(tmp_path / "b", path, "qlearning", *arguments).succeed()
    found = [each for each in answers(trainer.emitted) if each.blocks]
    assert len(found) > 3
    for each in found:
        assert actors_in(each)[0] == (NAME, 2)
        assert Replay(EpisodeRecord(each)).verdict.exact
    assert "every episode begins" in trainer.output


def test_a_training_whose_fork_diverges_ends_before_its_first_step(tmp_path: Path, write: Write) -> None:
    original = played(tmp_path / "a", "CartPole-v1")
    other = 1 - int(EpisodeRecord(original).action(3))
    path = write(tampered(original, 3, other), 8)
    sizes = ("--env-id", "CartPole-v1", "--total-timesteps", 1000)
    trainer = trained(tmp_path / "b", path, "dqn", *sizes)
    assert trainer.wait() == 1
    assert "diverges on replay, so there is no such moment here: diverged at step 3" in trainer.output
    assert not any(line["type"] in ("steps", "reset") for line in trainer.emitted)


def test_a_fork_of_another_env_or_of_other_arguments_is_refused(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(played(tmp_path / "a", "FrozenLake-v1", **LAKE), 1)
    monkeypatch.setenv("RUNSPINE_FORK", str(path))
    with pytest.raises(EnvUnfitError, match="is in FrozenLake-v1, not in CartPole-v1"):
        fork_of("CartPole-v1", "{}")
    with pytest.raises(EnvUnfitError, match="is_slippery False, not True"):
        fork_of("FrozenLake-v1", '{"is_slippery": true}')
    assert fork_of("FrozenLake-v1", '{"is_slippery": false}') is not None


def test_a_checkpoint_in_the_forked_episode_is_gone_on_from(tmp_path: Path, write: Write) -> None:
    original = played(tmp_path / "a", "CartPole-v1")
    fork = Fork(write(original, 5))
    one, other = (Envs("CartPole-v1", "{}", 2, seed=4, fork=fork) for _ in range(2))
    one.reset()
    actions = [np.array([step % 2, 1 - step % 2]) for step in range(4)]
    for action in actions:
        one.step(action)
    other.load_state_dict(one.state_dict())
    assert (other.obs == one.obs).all()
    for action in actions:
        before, after = one.step(action), other.step(action)
        assert (before.obs == after.obs).all()
        assert before.episodes == after.episodes
