"""Steps of one env as binary frames: the archive is the same as from lines, and a bad frame costs itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.frames import HEADER_SIZE, framed
from runspine.services.worker.protocol.frame_splitter import Frame
from runspine.services.worker.protocol.reader import ProtocolReader
from runspine.wire.v1.telemetry_pb2 import StepBlock
from tests.kit.samples.batched_envs import Archive
from tests.kit.samples.sdk import Listener


class Typed(gym.Env[Any, Any]):
    """An env whose values are of the given types; episodes of seven steps."""

    observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, like: np.ndarray[Any, Any]) -> None:
        self._like, self._at = like, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._like.copy(), {}

    def step(self, action: Any) -> Any:
        self._at += 1
        return self._like + self._at % 3, self._at / 7, self._at % 7 == 0, self._at % 14 == 0, {}


PICTURE = np.zeros((40, 40, 3), np.uint8)
ACTIONS = {
    "int": lambda at: at % 2,
    "float": lambda at: at / 3,
    "array": lambda at: np.full(2, at, np.float32),
    "bool": lambda at: at % 2 == 0,
    "dict": lambda at: {"move": at},
    "mixed": lambda at: at if at % 20 < 10 else at / 2,
}


def recorded(folder: Path, frames: str, env: Any, action: Any, **variables: str) -> Archive:
    folder.mkdir()
    listener = Listener(folder, frames=frames, **variables)
    wrapped = listener.wrap(env)
    wrapped.reset(seed=3)
    for at in range(1100):
        _, _, terminated, truncated, _ = wrapped.step(action(at))
        if terminated or truncated:
            wrapped.reset()
    wrapped.close()
    listener.close()
    assert (b"\xffRSFRAME" in listener.data) == (frames == "1" and not isinstance(action(0), dict))
    return Archive(listener.data)


def rows(archive: Archive) -> list[tuple[Any, ...]]:
    """Every column of the archive, joined over blocks, which are cut by the clock."""
    found: dict[str, list[Any]] = {}
    for block in archive.blocks:
        mine = found.setdefault(block.episode_id, [0, b"", b"", b"", b"", b"", []])
        assert block.first_step == mine[0]
        mine[0] += block.count
        parts = (block.action.data, block.reward.data, block.flags, block.observation.data)
        for at, part in enumerate((*parts, block.observation_hash), start=1):
            mine[at] += part
        mine[6] += [(block.slot, block.actor, block.action.dtype, block.observation.dtype)]
        mine[6] += block.action_json
    return [(name, *mine[:6], sorted(set(map(str, mine[6])))) for name, mine in found.items()]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("capture", ["", "hash", "none", "full"])
def test_frames_and_lines_of_the_same_steps_make_the_same_archive(
    tmp_path: Path, action: str, capture: str
) -> None:
    like = np.ones(3, np.float32)
    archives = [
        recorded(tmp_path / name, frames, Typed(like), ACTIONS[action], capture=capture)
        for name, frames in (("lines", ""), ("frames", "1"))
    ]
    assert rows(archives[0]) == rows(archives[1])
    assert archives[0].ended == archives[1].ended
    assert all(each.assembler.counts.steps == 1100 for each in archives)
    assert all(each.assembler.counts.malformed == 0 for each in archives)


def test_pictures_are_the_same_in_frames_and_lines(tmp_path: Path) -> None:
    archives = [
        recorded(tmp_path / name, frames, Typed(PICTURE), ACTIONS["int"], capture="full")
        for name, frames in (("lines", ""), ("frames", "1"))
    ]
    assert rows(archives[0]) == rows(archives[1])


def header(**changes: Any) -> dict[str, Any]:
    described = [["reward", "<f8", []], ["action", "<i8", []], ["obs", "<f4", [4]]]
    fields = {"type": "steps", "episode_id": "0-0", "slot": 0, "first": 0, "n": 3, "global_step": 0}
    return {**fields, "flags": 1, "t0": 1.0, "t1": 2.0, "columns": described} | changes


def read(fields: Any, data: bytes = bytes(3 * 32)) -> tuple[Any, str]:
    reader = ProtocolReader()
    payload = framed(json.dumps(fields).encode(), [data])[16:]
    return reader.read_frame(Frame(payload)), reader.why


def test_a_frame_of_steps_is_a_block() -> None:
    block, _ = read(header())
    assert isinstance(block, StepBlock)
    assert (block.count, block.flags, len(block.observation.data)) == (3, b"\0\0\1", 48)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n": 4}, "not as long as it states"),
        ({"n": 0}, "no steps"),
        ({"n": (1 << 32) - 1}, "not as long as it states"),
        ({"n": -1}, "not a slot"),
        ({"first": (1 << 63) - 2}, "too many"),
        ({"flags": 4}, "no steps, or too many"),
        ({"columns": []}, "first column"),
        ({"columns": [["reward", "<f4", []]]}, "first column"),
        ({"columns": [["reward", "<f8", []]]}, "not those of steps"),
        ({"columns": [["reward", "<f8", []], ["obs", "<f4", [4]], ["action", "<i8", []]]}, "not those"),
        ({"columns": [["reward", "<f8", []], ["action", "|O8", []]]}, "not a type of numbers"),
        ({"columns": [["reward", "<f8", []], ["action", "<i8", [1 << 31, 1 << 31]]]}, "not as long"),
        ({"columns": [["reward", "<f8", []], ["action", "<i8", [-1]]]}, "not a slot"),
        ({"columns": [["reward", "<f8", []], ["action"]]}, "not a column"),
        ({"columns": "reward"}, "first column"),
        ({"t1": float("1e300")}, "not a time"),
        ({"episode_id": ["0"]}, "not a short text"),
        ({"type": "unheard"}, "type"),
        ({"type": ["steps"]}, "type"),
    ],
)
def test_a_frame_that_lies_is_refused_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    block, why = read(header(**changes))
    assert block is None
    assert reason in why


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*header(), "agent_id", "actor"]), JSON)
def test_no_header_ends_the_reader(field: str, value: Any) -> None:
    block, why = read({**header(), field: value})
    assert block is not None or why


@given(st.binary(max_size=200))
def test_no_payload_ends_the_reader(data: bytes) -> None:
    reader = ProtocolReader()
    for payload in (data, HEADER_SIZE.pack(len(data)) + data, HEADER_SIZE.pack(1 << 31) + data):
        assert reader.read_frame(Frame(payload)) is None
        assert reader.why


def test_what_is_wrong_with_a_frame_is_in_the_log_of_its_run_and_costs_nothing_else() -> None:
    good = framed(json.dumps(header()).encode(), [bytes(96)])
    lying = framed(json.dumps(header(n=500)).encode(), [bytes(96)])
    archive = Archive(good + lying + good[:-20])
    assert archive.assembler.counts.steps == 3
    assert archive.assembler.counts.malformed == 2
    assert "not as long as it states" in archive.log
    assert "cut in the middle" in archive.log
