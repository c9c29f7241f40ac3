"""Steps as columns: exact values back, whatever they were."""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.services.worker.protocol.events import StepEvent
from runspine.services.worker.telemetry.assembly.columns import StepGatherer, as_array, split_block
from runspine.services.worker.telemetry.assembly.observations import MAX_ROW_BYTES, Observations, row_hash
from runspine.wire.v1.spec_pb2 import FULL, HASH, NONE, OBSERVATION_POLICY_UNSPECIFIED
from runspine.wire.v1.telemetry_pb2 import Array, Reset, StepBlock
from tests.kit.samples.columns import actions_of, values_of

ACTIONS = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(),
    st.text(max_size=3),
    st.none(),
    st.lists(st.floats(), max_size=3),
    st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


def step(
    number: int, action: Any = 0, *, obs: Any = None, flags: int = 0, agent: str = "", at: int = 7
) -> StepEvent:
    return StepEvent("e", 0, agent, number, action, 0.5, flags, obs, at, 0, 10)


def same(left: Any, right: Any) -> bool:
    """Equal, with NaN equal to itself and True not to 1."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


@given(st.lists(ACTIONS, min_size=1, max_size=6))
def test_values_come_back_as_they_were(values: list[Any]) -> None:
    gatherer = StepGatherer()
    for number, value in enumerate(values):
        gatherer.add(step(number, value))
    (block,) = gatherer.take()
    assert same(actions_of(block), values)


def test_numbers_of_one_kind_are_a_column() -> None:
    assert as_array([1, 2]) == Array(dtype="<i8", data=struct.pack("<2q", 1, 2))
    assert as_array([True, False]) == Array(dtype="|b1", data=b"\1\0")
    assert as_array([[1.5, 2], [3, 4]]) == Array(
        dtype="<f8", shape=[2], data=struct.pack("<4d", 1.5, 2, 3, 4)
    )


@pytest.mark.parametrize(
    "values", [[1, "a"], [[1], [1, 2]], [[1], 2], [2**63], [2**60, 0.5], [[]], [{}], [None], [True, 1]]
)
def test_anything_else_is_not(values: list[Any]) -> None:
    assert as_array(values) is None


def test_steps_of_several_agents_are_gathered_apart() -> None:
    gatherer = StepGatherer()
    for number in range(3):
        for agent in ("red", "green", "blue"):
            gatherer.add(step(number, agent=agent))
    blocks = gatherer.take()
    assert [(block.agent_id, block.first_step, block.count) for block in blocks] == [
        ("red", 0, 3),
        ("green", 0, 3),
        ("blue", 0, 3),
    ]
    assert gatherer.take() == []


def test_a_gap_or_an_end_begins_a_new_block() -> None:
    gatherer = StepGatherer()
    for number, flags in ((0, 0), (1, 1), (0, 0), (1, 0), (5, 0), (6, 2)):
        gatherer.add(step(number, flags=flags, at=100 + number))
    blocks = gatherer.take()
    assert [(block.first_step, block.count, block.flags) for block in blocks] == [
        (0, 2, b"\0\1"),
        (0, 2, b"\0\0"),
        (5, 2, b"\0\2"),
    ]
    assert [(block.first_at, block.last_at) for block in blocks] == [(100, 101), (100, 101), (105, 106)]


def test_steps_with_and_without_observations_do_not_share_a_block() -> None:
    gatherer = StepGatherer()
    for number, obs in enumerate((None, [1.0], [2.0], None)):
        gatherer.add(step(number, obs=obs))
    blocks = gatherer.take()
    assert [block.count for block in blocks] == [1, 2, 1]
    assert values_of(blocks[1].observation, 2) == [[1.0], [2.0]]


def block_of(rows: int, width: int, *, as_json: bool = False) -> StepBlock:
    gatherer = StepGatherer()
    for number in range(rows):
        row: Any = [float(number)] * width
        gatherer.add(step(number, number, obs={"o": "x" * (number * 10)} if as_json else row, at=number * 10))
    (block,) = gatherer.take()
    return block


@pytest.mark.parametrize("as_json", [False, True])
def test_a_large_block_is_cut_between_steps(as_json: bool) -> None:
    block = block_of(100, 40, as_json=as_json)
    parts = split_block(block, 4000)
    assert len(parts) > 5
    assert all(part.ByteSize() <= 4500 for part in parts)
    assert [value for part in parts for value in actions_of(part)] == list(range(100))
    assert b"".join(part.flags for part in parts) == bytes(100)
    assert b"".join(part.observation.data for part in parts) == block.observation.data
    assert [text for part in parts for text in part.observation_json] == list(block.observation_json)
    assert parts[0].first_step == 0
    for before, after in pairwise(parts):
        assert after.first_step == before.first_step + before.count
        assert before.last_at < after.first_at
    assert parts[-1].last_at == block.last_at


@pytest.mark.parametrize(
    ("policy", "width", "kept"),
    [
        (OBSERVATION_POLICY_UNSPECIFIED, 32, "whole"),
        (OBSERVATION_POLICY_UNSPECIFIED, 33, "hash"),
        (FULL, 33, "whole"),
        (HASH, 1, "hash"),
        (NONE, 1, "nothing"),
    ],
)
def test_the_policy_decides_what_is_kept_of_observations(policy: Any, width: int, kept: str) -> None:
    block = block_of(3, width)
    rows = [block.observation.data[i * width * 8 : (i + 1) * width * 8] for i in range(3)]
    Observations(policy).apply(block)
    assert block.HasField("observation") == (kept == "whole")
    assert block.observation_hash == (b"".join(map(row_hash, rows)) if kept == "hash" else b"")


def test_observations_without_a_shape_are_hashed_as_their_json() -> None:
    block = block_of(2, 0, as_json=True)
    texts = list(block.observation_json)
    Observations(HASH).apply(block)
    assert block.observation_hash == b"".join(row_hash(text.encode()) for text in texts)
    assert not block.observation_json


def test_the_first_observation_follows_the_same_policy() -> None:
    reset = Reset(observation=Array(dtype="<f4", shape=[2], data=b"12345678"))
    Observations(HASH).apply(reset)
    assert reset.observation_hash == row_hash(b"12345678")
    assert not reset.HasField("observation")
    plain = Reset(observation_json="[1]")
    Observations(FULL).apply(plain)
    assert plain.observation_json == "[1]"


def test_a_hash_by_the_trainer_is_kept_unless_nothing_is_wanted() -> None:
    for policy, kept in ((FULL, b"12345678"), (HASH, b"12345678"), (NONE, b"")):
        block = StepBlock(count=1, observation_hash=b"12345678")
        Observations(policy).apply(block)
        assert block.observation_hash == kept


def test_a_row_that_fits_no_batch_is_hashed_and_the_cut_is_reported() -> None:
    block = StepBlock(
        count=1, observation=Array(dtype="|u1", shape=[MAX_ROW_BYTES + 1], data=bytes(MAX_ROW_BYTES + 1))
    )
    observations = Observations(FULL)
    observations.apply(block)
    assert block.observation_hash == row_hash(bytes(MAX_ROW_BYTES + 1))
    assert observations.cut


def test_json_of_a_column_is_python_readable() -> None:
    gatherer = StepGatherer()
    gatherer.add(step(0, {"a": math.nan, "b": "é\ud800"}))
    (block,) = gatherer.take()
    assert block.action_json[0].isascii()
    assert json.loads(block.action_json[0])["b"] == "é\ud800"


def test_a_change_of_actor_begins_a_new_block() -> None:
    gatherer = StepGatherer()
    for number, actor in enumerate(("human", "human", "policy:ab", "human")):
        gatherer.add(step(number)._replace(actor=actor))
    received = [(block.actor, block.first_step, block.count) for block in gatherer.take()]
    assert received == [("human", 0, 2), ("policy:ab", 2, 1), ("human", 3, 1)]
    assert {piece.actor for piece in split_block(block_of(100, 40), 1000)} == {""}
