"""Lines written by the SDK parse back to exactly what was given."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.sdk.encoding import digest
from tests.kit.samples.sdk import Listener, column, of_type

DTYPES = st.sampled_from(["<f4", "<f8", ">f4", "<i8", "<i4", "|u1", "|b1", "<i2", "<u4", "<f2"])
SHAPES = st.sampled_from([(), (1,), (4,), (2, 3)])


@st.composite
def rows(draw: Any) -> Any:
    """Some rows of one dtype and shape, of any bits: NaN and infinities included."""
    count, dtype, shape = draw(st.integers(1, 40)), np.dtype(draw(DTYPES)), draw(SHAPES)
    size = count * math.prod(shape) * dtype.itemsize
    # Bytes and not numbers: drawing hundreds of floats one by one takes longer than the test itself.
    data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), "u1")
    values = (data & 1).astype(dtype) if dtype.kind == "b" else data.view(dtype)
    return values.reshape(count, *shape)


def same(emitted: Any, given: np.ndarray[Any, Any]) -> bool:
    """Equal bit by bit; on the wire everything is little-endian."""
    little = given.astype(given.dtype.newbyteorder("<"))
    alike = emitted.dtype == little.dtype and emitted.shape == little.shape
    return bool(alike and emitted.tobytes() == little.tobytes())


@settings(max_examples=60)
@given(actions=rows(), observations=rows(), seed=st.integers(0, 3))
def test_columns_parse_back_to_the_arrays_given(
    tmp_path_factory: pytest.TempPathFactory, actions: Any, observations: Any, seed: int
) -> None:
    count = min(len(actions), len(observations))
    rewards = np.random.default_rng(seed).normal(size=count) * 10.0**seed
    listener = Listener(tmp_path_factory.mktemp("run"), capture="full")
    recorder, row = _recorder(listener)
    step = recorder.recording(lambda _: row[0])
    recorder.begin(observations[0])
    for index in range(count):
        ended = index == count - 1
        row[0] = (observations[index], rewards[index], ended, False, {})
        step(actions[index])
    lines = listener.lines()
    blocks = of_type(lines, "steps")
    assert sum(block["n"] for block in blocks) == count
    assert same(np.concatenate([column(block["action"]) for block in blocks]), actions[:count])
    assert same(np.concatenate([column(block["obs"]) for block in blocks]), observations[:count])
    assert same(np.concatenate([column(block["reward"]) for block in blocks]), rewards)
    (episode,) = of_type(lines, "episode")
    assert (episode["steps"], episode["return"]) == (count, sum(rewards.tolist()))
    assert listener.run.dropped == 0


def _recorder(listener: Listener) -> tuple[Any, list[Any]]:
    from runspine.sdk.slot_recorder import SlotRecorder

    return SlotRecorder(listener.run, 0), [None]


def record(listener: Listener, actions: list[Any], observations: list[Any], rewards: list[Any]) -> None:
    recorder, row = _recorder(listener)
    step = recorder.recording(lambda _: row[0])
    recorder.begin(observations[0])
    for action, observation, reward in zip(actions, observations, rewards, strict=True):
        row[0] = (observation, reward, False, False, {})
        step(action)


@pytest.mark.parametrize(
    ("actions", "dtype"),
    [
        ([0, 1, 2], "<i8"),
        ([np.int32(3), np.int32(4)], "<i4"),
        ([0.5, 1.5], "<f8"),
        ([True, False], "|b1"),
        ([1, np.int64(2), 3], "<i8"),
    ],
)
def test_scalar_actions_keep_their_dtype(tmp_path: Path, actions: list[Any], dtype: str) -> None:
    listener = Listener(tmp_path)
    record(listener, actions, [0] * len(actions), [1] * len(actions))
    (block,) = of_type(listener.lines(), "steps")
    assert block["action"]["dtype"] == dtype
    assert column(block["action"]).tolist() == actions


def test_structured_values_are_written_as_json(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    actions = [{"move": np.float32(0.1), "jump": 1}, (1, np.array([2, 3]))]
    observations = [{"image": np.arange(3), "text": "go"}, {"image": np.arange(3), "text": "stop"}]
    record(listener, actions, observations, [1.0, 2.0])
    (block,) = of_type(listener.lines(), "steps")
    assert block["action"] == [{"move": float(np.float32(0.1)), "jump": 1}, [1, [2, 3]]]
    assert block["obs"] == [{"image": [0, 1, 2], "text": "go"}, {"image": [0, 1, 2], "text": "stop"}]


def test_a_value_of_another_kind_begins_a_new_line_and_nothing_is_lost(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    actions = [np.zeros(2, "<f4"), np.ones(2, "<f4"), np.ones(2), np.ones(3), 7]
    observations = [np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2, "<f4"), "text"]
    record(listener, actions, observations, [1.0] * 5)
    blocks = of_type(listener.lines(), "steps")
    assert [(block["first"], block["n"]) for block in blocks] == [(0, 2), (2, 1), (3, 1), (4, 1)]
    emitted = [column(block["action"]).tolist() for block in blocks]
    assert emitted == [[[0, 0], [1, 1]], [[1, 1]], [[1, 1, 1]], [7]]
    assert column(blocks[3]["obs"]) == ["text"]


def test_an_array_changed_afterwards_was_recorded_before(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    recorder, row = _recorder(listener)
    step = recorder.recording(lambda _: row[0])
    action, observation = np.zeros(1), np.zeros(3)
    recorder.begin(observation)
    for index in range(3):
        action[0], observation[:] = index, index
        row[0] = (observation, 0.0, False, False, {})
        step(action)
    action[:] = observation[:] = -1
    (block,) = of_type(listener.lines(), "steps")
    assert column(block["action"])[:, 0].tolist() == [0, 1, 2]
    assert column(block["obs"])[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("capture", "size", "kept"),
    [("", 64, "obs"), ("", 65, "obs_hash"), ("full", 65, "obs"), ("hash", 1, "obs_hash"), ("none", 1, None)],
)
def test_the_policy_decides_whether_observations_are_kept(
    tmp_path: Path, capture: str, size: int, kept: str | None
) -> None:
    listener = Listener(tmp_path, capture=capture)
    observations = [np.full(size, index, "<f4") for index in range(3)]
    record(listener, [0, 0, 0], observations, [0.0] * 3)
    lines = listener.lines()
    (block,), (reset,) = of_type(lines, "steps"), of_type(lines, "reset")
    for emitted in (block, reset):
        assert {"obs", "obs_hash"} & set(emitted) == ({kept} if kept else set())
    if kept == "obs_hash":
        import base64
        import hashlib

        expected = b"".join(hashlib.blake2b(row.tobytes()).digest()[:8] for row in observations)
        assert base64.b64decode(block["obs_hash"]) == expected
        assert base64.b64decode(reset["obs_hash"]) == digest(observations[0])


def test_rewards_of_any_number_like_kind_are_written_as_doubles(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    rewards = [1, 0.5, np.float32(0.1), np.float64("nan"), np.array([2.0]), np.array(3.0), float("inf")]
    record(listener, [0] * 7, [0] * 7, rewards)
    (block,) = of_type(listener.lines(), "steps")
    emitted = column(block["reward"])
    np.testing.assert_array_equal(emitted, [1, 0.5, np.float32(0.1), np.nan, 2, 3, np.inf])


def test_a_change_of_actor_begins_a_new_block_that_names_the_actor(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = listener.wrap(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    for actor, count in (("", 2), ("human", 3), ("human", 1), ('po"licy', 2)):
        env.recorder.set_actor(actor)
        for number in range(count):
            env.step(number % 2)
    blocks = of_type(listener.lines(), "steps")
    received = [(block.get("actor"), block["first"], block["n"]) for block in blocks]
    assert received == [(None, 0, 2), ("human", 2, 4), ('po"licy', 6, 2)]
