"""Many envs at once: every step of every slot is on record once, and its episodes are the env's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from tests.kit.samples.batched_envs import Archive, ArrayVector, Episodes, TensorEnv
from tests.kit.samples.sdk import Listener, of_type

FRAMES = pytest.mark.parametrize("frames", ["1", ""], ids=["frames", "lines"])


def drive(env: Any, steps: int, actions: Any = None) -> None:
    env.reset(seed=1)
    for number in range(steps):
        env.step(np.full(env.num_envs, number % 2) if actions is None else actions(number))


def archived(listener: Listener, env: Any, chunk: int = 1 << 16) -> Archive:
    env.close()
    listener.lines()
    return Archive(listener.data, chunk)


def assert_same(archive: Archive, played: Episodes, resets: int = 0) -> None:
    expected = sorted(played.ended)
    assert sorted((slot, steps) for slot, steps, _ in archive.ended) == [each[:2] for each in expected]
    assert [value for *_, value in sorted(archive.ended)] == pytest.approx([each[2] for each in expected])
    counts = archive.assembler.counts
    assert (counts.steps, counts.episodes, counts.malformed) == (played.steps + resets, len(expected), 0)
    assert sum(block.count for block in archive.blocks) == counts.steps


@FRAMES
@pytest.mark.parametrize("same_step", [True, False])
@pytest.mark.parametrize("finals", [True, False])
def test_the_reset_of_an_env_that_does_not_state_it_is_detected(
    tmp_path: Path, frames: str, same_step: bool, finals: bool
) -> None:
    listener = Listener(tmp_path, frames=frames)
    bare = ArrayVector(4, same_step=same_step, finals=finals and same_step)
    env = listener.wrap(bare)
    drive(env, 400)
    archive = archived(listener, env)
    mode = "SameStep" if same_step else "NextStep"
    assert mode in listener.notes[-1]
    assert f'"autoreset":"{mode}, detected"' in listener.data.decode("latin-1")
    if same_step:
        assert_same(archive, bare.episodes)
    else:
        # Until it is sure, a reset is recorded as a step: none is lost by a wrong guess.
        assert "do not show it" in listener.notes[0]
        extra = archive.assembler.counts.steps - bare.episodes.steps
        assert 0 <= extra < 20
        assert len(archive.ended) == len(bare.episodes.ended)


@FRAMES
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_env_that_states_its_resets_is_taken_at_its_word(tmp_path: Path, frames: str, mode: Any) -> None:
    listener = Listener(tmp_path, frames=frames)
    bare = ArrayVector(5, same_step=mode == AutoresetMode.SAME_STEP, finals=True)
    bare.metadata = {"autoreset_mode": mode}
    env = listener.wrap(bare)
    drive(env, 700)
    archive = archived(listener, env, chunk=777)
    assert_same(archive, bare.episodes)
    # Observations are slot, episode and step: those of each episode lead from its first to its last step.
    for slot, length, _ in bare.episodes.ended[:20]:
        assert any(each.slot == slot and each.steps == length for each in archive.episodes)
    for episode in archive.episodes:
        number = int(episode.episode_id.split("-")[1])
        seen = archive.whole(episode.episode_id, "observation")
        expected = [[episode.slot, number, step] for step in range(1, episode.steps + 1)]
        np.testing.assert_array_equal(seen, expected)
        (began,) = [reset for reset in archive.resets if reset.episode_id == episode.episode_id]
        first = np.frombuffer(began.observation.data, began.observation.dtype)
        np.testing.assert_array_equal(first, [episode.slot, number, 0])
    assert listener.notes == []


def test_an_env_that_shows_nothing_is_recorded_whole_and_the_log_states_it(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1")
    bare = ArrayVector(3, same_step=True, sparse=True)
    env = listener.wrap(bare)
    env.reset()
    for number in range(300):
        env.step(np.full(3, number % 2))
    archive = archived(listener, env)
    # Episodes of one step end twice in a row, which shows the reset after all.
    assert archive.assembler.counts.steps == bare.episodes.steps == 900
    assert_same(archive, bare.episodes)


@FRAMES
def test_an_env_of_many_in_the_shape_of_isaac_lab_is_recorded(tmp_path: Path, frames: str) -> None:
    listener = Listener(tmp_path, frames=frames)
    bare = TensorEnv(32)
    env = listener.wrap(bare)
    assert env.device == "cpu"
    drive(env, 100, lambda number: torch.full((32, 2), float(number)))
    archive = archived(listener, env)
    assert archive.assembler.counts.steps == 3200
    assert_same(archive, bare.episodes)
    actions = archive.whole("0-0", "action")
    assert actions[:, 0].tolist() == list(range(len(actions)))


def test_of_slots_that_are_not_whole_rewards_and_ends_are_kept(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1", capture_whole="2")
    bare = ArrayVector(50, same_step=True)
    env = listener.wrap(bare)
    drive(env, 120)
    archive = archived(listener, env)
    assert_same(archive, bare.episodes)
    for block in archive.blocks:
        assert block.HasField("action") == block.HasField("observation") == (block.slot < 2)
        assert len(block.flags) == block.count
    assert {reset.slot for reset in archive.resets} == {0, 1}


def test_what_fails_is_stated_in_the_log_and_the_training_goes_on(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1", protocol="1")
    bare = ArrayVector(4, same_step=True)
    bare.num_envs = 5
    env = listener.wrap(bare)
    env.reset()
    env.step(np.zeros(4))
    env.step(np.zeros(4))
    archive = archived(listener, env)
    assert "slots 0 to 4 are no longer recorded" in archive.log
    assert "of 5 envs" in archive.log


def test_a_type_that_changes_begins_another_block(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1")
    bare = ArrayVector(4, same_step=True)
    env = listener.wrap(bare)
    drive(env, 90, lambda number: np.full(4, number, np.int64 if number < 40 else np.float32))
    archive = archived(listener, env)
    assert_same(archive, bare.episodes)
    assert {block.action.dtype for block in archive.blocks} == {"<i8", "<f4"}


@FRAMES
def test_blocks_of_a_scan_are_recorded_in_one_call(tmp_path: Path, frames: str) -> None:
    listener = Listener(tmp_path, frames=frames)
    played = Episodes(16, same_step=True)
    for _ in range(3):
        rows = [played.step() for _ in range(50)]
        observations, rewards, terminated, truncated, _ = (np.stack(each) for each in zip(*rows, strict=True))
        actions = torch.ones((50, 16, 2))
        batch = {"reward": torch.from_numpy(rewards), "terminated": terminated, "truncated": truncated}
        listener.run.log_steps({**batch, "action": actions, "obs": observations})
    listener.lines()
    assert_same(Archive(listener.data), played)
    assert listener.run.dropped == 0


def test_a_block_whose_arrays_do_not_belong_together_is_counted_and_not_raised(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1")
    listener.run.log_steps({"reward": np.zeros((3, 4)), "terminated": np.zeros((3, 5))})
    listener.run.log_steps({"reward": np.zeros(3)})
    listener.run.log_steps({})
    assert of_type(listener.lines(), "steps") == []
    assert listener.run.dropped == 3


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasiums_async_envs_are_recorded_in_frames_as_in_lines(tmp_path: Path, mode: Any) -> None:
    def made(frames: str) -> tuple[list[Any], int]:
        (tmp_path / f"run{frames}").mkdir()
        listener = Listener(tmp_path / f"run{frames}", frames=frames)
        envs = gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, autoreset_mode=mode)
        env = listener.wrap(envs)
        env.reset(seed=3)
        for number in range(120):
            *_, terminated, truncated, _ = env.step(np.full(2, number % 2))
            done = terminated | truncated
            if mode == AutoresetMode.DISABLED and done.any():
                env.reset(options={"reset_mask": done})
        archive = archived(listener, env)
        return sorted(archive.ended), archive.assembler.counts.steps

    assert made("1") == made("")


class Pictures(ArrayVector):
    """Envs with large observations."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__(count, same_step=True)
        self._pictures = np.zeros((count, size), np.uint8)

    def reset(self, **given: Any) -> Any:
        super().reset(**given)
        return self._pictures, {}

    def step(self, actions: Any) -> Any:
        return self._pictures, *super().step(actions)[1:]


@pytest.mark.parametrize(("count", "size"), [(2, 300_000), (128, 100_000)])
def test_observations_that_fit_into_no_frame_are_hashed_and_no_step_is_lost(
    tmp_path: Path, count: int, size: int
) -> None:
    listener = Listener(tmp_path, frames="1", capture="full")
    bare = Pictures(count, size)
    env = listener.wrap(bare)
    drive(env, 20)
    archive = archived(listener, env)
    assert archive.assembler.counts.steps == bare.episodes.steps
    assert archive.assembler.counts.malformed == 0
    assert all(len(block.observation_hash) == 8 * block.count for block in archive.blocks)
    assert any("hashes are kept instead" in note for note in listener.notes)


class Puffers:
    """The shape of PufferLib: no class of Gymnasium's, arrays that are used again, infos in a list."""

    def __init__(self, count: int, same_step: bool) -> None:
        self.num_agents = count
        self._inner = ArrayVector(count, same_step=same_step)
        self.episodes = self._inner.episodes
        self._result: Any = None

    def reset(self, seed: Any = None) -> Any:
        seen, _ = self._inner.reset(seed=seed)
        return seen, []

    def step(self, actions: Any) -> Any:
        return *self._inner.step(actions)[:4], [{}]

    def async_reset(self, seed: Any = None) -> None:
        seen, infos = self.reset(seed)
        none = np.zeros(self.num_agents)
        self._result = (seen, none, none.astype(bool), none.astype(bool), infos, np.arange(3), none == 0)

    def send(self, actions: Any) -> None:
        self._result = (*self.step(actions), np.arange(3), np.ones(self.num_agents, bool))

    def recv(self) -> Any:
        return self._result

    def close(self) -> None:
        pass


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_vector_env_that_is_none_of_gymnasium_is_recorded(tmp_path: Path, asynchronous: bool) -> None:
    listener = Listener(tmp_path, frames="1")
    bare = Puffers(6, same_step=True)
    env = listener.wrap(bare)
    assert (env.num_agents, len(env), env.episodes) == (6, 6, bare.episodes)
    if asynchronous:
        env.async_reset(1)
        env.recv()
    else:
        env.reset(1)
    for number in range(300):
        actions = np.full(6, number % 2)
        if asynchronous:
            env.send(actions)
            env.recv()
        else:
            env.step(actions)
    archive = archived(listener, env)
    assert_same(archive, bare.episodes)
    actions = archive.whole("0-0", "action")
    assert actions.tolist() == [number % 2 for number in range(len(actions))]


def test_a_spec_of_another_kind_ends_no_recording(tmp_path: Path) -> None:
    listener = Listener(tmp_path, frames="1")
    bare = ArrayVector(4, same_step=True)
    bare.spec = object()  # type: ignore[assignment]
    env = listener.wrap(bare)
    drive(env, 50)
    assert_same(archived(listener, env), bare.episodes)


def test_what_is_no_env_is_refused(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    with pytest.raises(TypeError, match="takes an env of Gymnasium"):
        listener.wrap(object())
    listener.close()
