"""Replay's pure core: what a record holds, what counts as the same, and where the first difference is."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from runspine.replay import Divergence, EpisodeRecord, ReplayVerifier, Way
from runspine.replay.divergence import changed_packages, first_difference
from runspine.replay.observations import (
    FullObservations,
    HashedObservations,
    TextObservations,
    observations_in,
)
from runspine.replay.providers import module_for, package_for
from runspine.replay.ways import MAX_RESETS, fitted, ways_of
from runspine.sdk.encoding import digest, dumps
from runspine.services.worker.telemetry.assembly.columns import as_array
from runspine.services.worker.telemetry.assembly.observations import row_hash
from runspine.wire.v1.telemetry_pb2 import Array, GetEpisodeResponse, Reset, StepBlock


def block(first: int, actions: list[int], rewards: list[float], flags: bytes, **more: Any) -> StepBlock:
    count = len(actions)
    return StepBlock(
        episode_id="0-7",
        first_step=first,
        count=count,
        action=Array(dtype="<i8", data=struct.pack(f"<{count}q", *actions)),
        reward=Array(dtype="<f8", data=struct.pack(f"<{count}d", *rewards)),
        flags=flags,
        **more,
    )


def whole(values: Any) -> Array:
    rows = np.asarray(values)
    return Array(dtype=rows.dtype.str, shape=rows.shape[1:], data=rows.tobytes())


def answer(*blocks: StepBlock, steps: int = 0, **reset: Any) -> GetEpisodeResponse:
    emitted = GetEpisodeResponse(blocks=blocks, reset=Reset(episode_id="0-7", **reset))
    emitted.entry.episode.episode_id, emitted.entry.episode.steps = "0-7", steps
    return emitted


THREE = answer(
    block(0, [1, 0], [0.5, -1.0], b"\0\0", observation=whole(np.array([[1, 2], [3, 4]], np.float32))),
    block(2, [1], [math.nan], b"\1", observation=whole(np.array([[5, 6]], np.float32))),
    steps=3,
    observation=whole(np.array([[0, 0]], np.float32)),
)
GIVEN = [  # type: ignore[var-annotated]
    (np.array([1, 2], np.float32), 0.5, False, False, {}),
    (np.array([3, 4], np.float32), -1, np.False_, False, {}),
    (np.array([5, 6], np.float32), np.float64("nan"), True, False, {}),
]


def verify(record: EpisodeRecord, results: list[Any], first: Any) -> Divergence | None:
    verifier = ReplayVerifier(record)
    verifier.began(first)
    for number, result in enumerate(results):
        verifier.stepped(number, result)
    return verifier.divergence


def test_steps_of_several_blocks_are_one_episode() -> None:
    record = EpisodeRecord(THREE)
    assert [record.action(n) for n in range(3)] == [1, 0, 1]
    assert type(record.action(0)) is np.int64
    assert type(record.action(0, python=True)) is int
    assert record.step(2)._replace(reward=0.0, observation=None) == (2, 1, 0.0, True, False, None)
    np.testing.assert_array_equal(record.step(1).observation, [3, 4])
    assert (record.length, record.missing, record.kinds) == (3, 0, {"whole": 4})
    with pytest.raises(IndexError, match="step 3 of an episode with 3"):
        record.action(3)


def test_what_comes_out_as_recorded_does_not_diverge() -> None:
    assert verify(EpisodeRecord(THREE), GIVEN, np.array([0, 0], np.float32)) is None


@pytest.mark.parametrize(
    ("step", "field", "place", "value"),
    [
        (0, "reward", 1, 0.5000001),
        (1, "terminated", 2, True),
        (1, "truncated", 3, True),
        (1, "observation", 0, np.array([3, np.nextafter(np.float32(4), np.float32(5))], np.float32)),
        (1, "observation", 0, np.array([3, 4], np.float64)),
        (1, "observation", 0, np.array([[3, 4]], np.float32)),
        (2, "reward", 1, 0.0),
        (2, "terminated", 2, False),
    ],
)
def test_the_first_difference_is_named_with_its_step_and_field(
    step: int, field: str, place: int, value: Any
) -> None:
    results = [list(result) for result in GIVEN]
    results[step][place] = value
    found = verify(EpisodeRecord(THREE), results, np.array([0, 0], np.float32))
    assert found is not None
    assert (found.step, found.field) == (step, field)
    assert found.where == f"at step {step}"
    json.dumps([found.recorded, found.got])


def test_a_reset_that_gives_something_else_is_found_before_any_step() -> None:
    found = verify(EpisodeRecord(THREE), GIVEN, np.array([0, -0.0], np.float32))
    assert found is not None
    assert (found.step, found.field, found.after) == (None, "observation", -1)
    assert first_difference(*(np.array([0, 1], np.float32), np.array([0, 2], np.float32))) == ((1,), 1.0, 2.0)


def test_what_lies_behind_a_gap_is_not_played() -> None:
    emitted = answer(block(0, [1], [0.0], b"\0"), block(2, [1], [0.0], b"\1"), block(1, [], [], b""), steps=3)
    record = EpisodeRecord(emitted)
    assert (record.length, record.missing) == (1, 2)


def test_a_record_of_nothing_can_be_looked_at() -> None:
    record = EpisodeRecord(GetEpisodeResponse())
    assert (record.length, record.missing, record.kinds, record.agents) == (0, 0, {}, [])
    assert not record.start.is_known


VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**40), 2**40),
        # One NaN: JSON keeps neither its sign nor its payload.
        st.floats(width=32, allow_nan=False) | st.just(math.nan),
        st.booleans(),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_an_observation_written_as_json_is_known_again_whole_and_by_the_workers_hash(value: Any) -> None:
    text = dumps(value)
    assert TextObservations([text]).matches(0, value)
    column = as_array([json.loads(text)])
    hashed = row_hash(column.data if column is not None else text.encode())
    assert HashedObservations(hashed).matches(0, value)


@given(st.lists(st.floats(width=32), min_size=1, max_size=6), st.integers(0, 5))
def test_one_bit_of_an_array_is_enough(values: list[float], at: int) -> None:
    row = np.array(values, np.float32)
    other = row.copy()
    other.view(np.uint32)[at % len(row)] ^= 1
    for seen in (FullObservations(whole(row[None])), HashedObservations(digest(row))):
        assert seen.matches(0, row)
        assert not seen.matches(0, other)


def test_a_trainers_list_is_the_array_that_it_was_made_of() -> None:
    row = np.array([0.1, -3.25], np.float32)
    column = as_array([row.tolist()])
    assert column is not None
    seen = observations_in(StepBlock(observation=column, count=1))
    assert seen.matches(0, row)
    assert not seen.matches(0, np.array([0.1, -3.5], np.float32))
    assert not seen.matches(0, "text")
    assert not seen.matches(0, {"a": 1})


def test_packages_that_changed_or_are_gone_are_reported() -> None:
    recorded = {"numpy": "1.26.4", "mujoco": "2.3.3", "python": "3.11.7"}
    changed = changed_packages(recorded, {"numpy": "2.4.6", "python": "3.11.7", "torch": "2"})
    assert [str(each) for each in changed] == [
        "mujoco 2.3.3 when recorded, not installed now",
        "numpy 1.26.4 when recorded, 2.4.6 now",
    ]


def test_ways_are_tried_from_the_likeliest_on() -> None:
    rng = json.dumps({"bit_generator": "PCG64"})
    one = block(0, [1], [0.0], b"\1")
    assert ways_of(EpisodeRecord(answer(one, rng_json=rng))) == [Way(), Way(python=True)]
    later = EpisodeRecord(answer(one, rng_json=rng, ordinal=4))
    assert ways_of(later)[:2] == [Way(), Way(resets=4)]
    assert ways_of(EpisodeRecord(answer(one, rng_json=rng, ordinal=MAX_RESETS + 1)))[1] == Way(python=True)
    unknown = EpisodeRecord(answer(one, ordinal=4))
    assert Way(history=True) in ways_of(unknown, [later])
    assert Way() not in ways_of(unknown, [later])


def test_structured_actions_get_the_types_of_their_space_back() -> None:
    space = spaces.Dict(
        {
            "move": spaces.Box(-1, 1, (2,), np.float32),
            "jump": spaces.Discrete(3),
            "keys": spaces.Tuple([spaces.MultiBinary(3), spaces.MultiDiscrete([2, 2])]),
            "text": spaces.Text(5),
        },
        seed=4,
    )
    action = space.sample()
    again = fitted(space, json.loads(dumps(action)))
    assert again in space
    assert digest(again) == digest(action)
    assert type(again["jump"]) is np.int64
    assert again["move"].dtype == np.float32
    assert type(again["keys"]) is tuple


@pytest.mark.parametrize(
    ("env_id", "entry_point", "module", "package"),
    [
        (
            "CartPole-v1",
            "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
            "",
            "gymnasium[classic-control]",
        ),
        ("LunarLander-v3", "gymnasium.envs.box2d.lunar_lander:LunarLander", "", "gymnasium[box2d]"),
        ("Hopper-v5", "", "", "gymnasium[mujoco]"),
        ("MiniGrid-Empty-5x5-v0", "", "minigrid", "minigrid"),
        ("ALE/Pong-v5", "", "ale_py", "ale-py"),
        ("BreakoutNoFrameskip-v4", "", "ale_py", "ale-py"),
        ("Known-v0", "known_envs.grid:Grid", "known_envs.grid", "known_envs"),
        ("My-v0", "my_envs.grid:Grid", "my_envs.grid", ""),
        ("My-v0", "__main__:Grid", "__main__", ""),
        ("My-v0", "", "", ""),
    ],
)
def test_an_envs_package_is_known_by_its_class_or_its_id(
    env_id: str, entry_point: str, module: str, package: str
) -> None:
    assert module_for(env_id, entry_point) == module
    assert package_for(env_id, entry_point, {"known_envs": "1.0"}) == package
