"""The reader of protocol v1: what each line means, and that no line is an error."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.wire.v1.telemetry_pb2 import EnvMade, Episode, Reset, StepBlock
from services.worker.protocol import ProtocolReader
from services.worker.protocol_events import Artifact, Config, Event, Line, Metrics, Reached, Step
from services.worker.protocol_lines import LARGEST_VALUE
from services.worker.redact import Redactor

NOW = 1_794_800_549_250_000
STEP = {
    "type": "step",
    "episode_id": "a",
    "step": 4,
    "action": 1,
    "reward": 1.0,
    "terminated": False,
    "truncated": False,
}


def base(data: bytes) -> str:
    return base64.b64encode(data).decode()


def column(dtype: str, shape: list[int], data: bytes) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data": base(data)}


STEPS = {
    "type": "steps",
    "episode_id": "0-17",
    "slot": 3,
    "first": 128,
    "n": 2,
    "global_step": 4096,
    "action": column("<i8", [], bytes(16)),
    "reward": column("<f8", [], bytes(16)),
    "flags": base(b"\0\1"),
    "obs": column("<f4", [4], bytes(range(32))),
    "t0": 1794800549.25,
    "t1": 1794800549.5,
}


def read(said: object, **how: Any) -> Event:
    line = said if isinstance(said, bytes) else json.dumps(said).encode()
    return ProtocolReader(**how).read(line, NOW)


def test_a_step_keeps_the_trainers_own_values() -> None:
    said = {
        **STEP,
        "slot": 2,
        "agent_id": "red",
        "obs": [0.5, 1],
        "t": 1.5,
        "global_step": 99,
        "action": [1, 2],
    }
    event = read({**said, "terminated": True, "truncated": True})
    assert isinstance(event, Step)
    assert event[:-2] == ("a", 2, "red", 4, [1, 2], 1.0, 3, [0.5, 1], 1_500_000, 99)


def test_what_a_step_leaves_out_has_a_default() -> None:
    event = read(STEP)
    assert isinstance(event, Step)
    assert (event.slot, event.agent_id, event.obs, event.at, event.global_step) == (0, "", None, NOW, 0)


def test_a_number_may_name_an_episode() -> None:
    event = read({**STEP, "episode_id": 17, "agent_id": 0})
    assert isinstance(event, Step)
    assert (event.episode_id, event.agent_id) == ("17", "0")


def test_columns_pass_with_their_bytes_as_they_are() -> None:
    event = read({**STEPS, "agent_id": "red"})
    assert isinstance(event, StepBlock)
    assert (event.episode_id, event.slot, event.agent_id) == ("0-17", 3, "red")
    assert (event.first_step, event.count, event.global_step) == (128, 2, 4096)
    assert (event.observation.dtype, list(event.observation.shape)) == ("<f4", [4])
    assert event.observation.data == bytes(range(32))
    assert (event.flags, event.first_at, event.last_at) == (b"\0\1", NOW, 1_794_800_549_500_000)


def test_columns_without_a_fixed_shape_are_json_for_each_step() -> None:
    event = read({**STEPS, "action": [{"go": [1, 2]}, "left"], "obs": [None, [math.inf]]})
    assert isinstance(event, StepBlock)
    assert list(event.action_json) == ['{"go":[1,2]}', '"left"']
    assert list(event.observation_json) == ["null", "[Infinity]"]
    assert not event.HasField("action")


def test_hashes_may_stand_for_observations() -> None:
    event = read({**{k: v for k, v in STEPS.items() if k != "obs"}, "obs_hash": base(bytes(range(16)))})
    assert isinstance(event, StepBlock)
    assert event.observation_hash == bytes(range(16))
    assert not event.HasField("observation")


def test_episodes_metrics_envs_and_the_rest_are_understood() -> None:
    episode = read({"type": "episode", "episode_id": "a", "steps": 512, "return": 241, "truncated": True})
    assert isinstance(episode, Episode)
    assert (episode.steps, getattr(episode, "return"), episode.flags, episode.ended_at) == (
        512,
        241.0,
        2,
        NOW,
    )
    assert read({"type": "metric", "name": "x", "value": 1, "step": 7}) == Metrics({"x": 1.0}, 7, NOW)
    assert read({"type": "metrics", "values": {"x": 1, "y": 2.5}}) == Metrics({"x": 1.0, "y": 2.5}, None, NOW)
    env = read({"type": "env", "slot": 1, "env_id": "E", "kwargs": {"a": [1]}, "versions": {"numpy": "2"}})
    assert env == EnvMade(slot=1, env_id="E", kwargs_json='{"a":[1]}', versions={"numpy": "2"}, at=NOW)
    config = read({"type": "config", "algo": "ppo", "args": {"lr": 1e-3}})
    assert isinstance(config, Config)
    assert json.loads(config.text) == {"type": "config", "algo": "ppo", "args": {"lr": 1e-3}}
    artifact = read({"type": "artifact", "kind": "video", "path": "v.mp4", "meta": {"fps": 30}})
    assert isinstance(artifact, Artifact)
    assert artifact.said["meta"] == {"fps": 30}
    assert read({"type": "progress", "step": 5, "total": 10}) == Reached(5, 10)


def test_the_state_of_a_generator_stays_exact() -> None:
    state = {"bit_generator": "PCG64", "state": {"state": 2**127 + 1, "inc": 3**70}}
    said = {
        "type": "reset",
        "episode_id": "a",
        "slot": 0,
        "ordinal": 2,
        "seed": 2**70,
        "rng": state,
        "obs": [1],
    }
    event = read(said)
    assert isinstance(event, Reset)
    assert json.loads(event.rng_json) == state
    assert (json.loads(event.seed_json), event.options_json, event.observation_json) == (2**70, "", "[1]")


def test_a_reset_may_carry_its_observation_as_a_column_or_a_hash() -> None:
    said = {"type": "reset", "episode_id": "a", "slot": 0, "ordinal": 0}
    whole, hashed = (
        read({**said, "obs": column("<f4", [2], bytes(8))}),
        read({**said, "obs_hash": base(bytes(8))}),
    )
    assert isinstance(whole, Reset)
    assert isinstance(hashed, Reset)
    assert (whole.observation.data, hashed.observation_hash) == (bytes(8), bytes(8))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_may_be_nan_or_infinite(value: float) -> None:
    step = read({**STEP, "reward": value, "action": value, "obs": [value, 1.0]})
    assert isinstance(step, Step)
    metric = read({"type": "metric", "name": "x", "value": value})
    assert isinstance(metric, Metrics)
    for seen in (step.reward, step.action, step.obs[0], metric.values["x"]):
        assert seen == value or (math.isnan(seen) and math.isnan(value))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [1, [2**90]], {"a": 3**80}])
def test_a_large_integer_stays_exact(value: object) -> None:
    event = read({**STEP, "action": value, "obs": value})
    assert isinstance(event, Step)
    assert (event.action, event.obs) == (value, value)


def test_an_object_may_be_indented() -> None:
    assert isinstance(read(b'  { "type": "progress", "step": 1 }'), Reached)


MALFORMED: list[object] = [
    b'{"type": "unknown"}',
    b'{"no": "type"}',
    b'{"type": "step", "step": 1',
    b'{"type": 3}',
    b'{"type": ["step"]}',
    b'{"type": "step"}',
    b'{"a":' * 100_000,
    b'{"type": "metric", "name": "loss", "value": ' + b"9" * 1000 + b"}",
    b'{"type": "metric", "name": "loss", "value": ' + b"9" * 10_000 + b"}",
    b'{"type": "metric", "name": "\\ud800", "value": 1}',
    b'{"type": "metric", "name": "\xff", "value": 1}',
    {**STEP, "step": -1},
    {**STEP, "step": True},
    {**STEP, "step": 2**63},
    {**STEP, "reward": "high"},
    {**STEP, "reward": None},
    {**STEP, "slot": -1},
    {**STEP, "slot": 2**32},
    {**STEP, "terminated": "no"},
    {**STEP, "episode_id": ["a"]},
    {**STEP, "episode_id": "a" * 5000},
    {**STEP, "t": math.nan},
    {**STEP, "action": "x" * LARGEST_VALUE},
    {key: value for key, value in STEP.items() if key != "truncated"},
    {key: value for key, value in STEP.items() if key != "action"},
    {**STEPS, "n": 3},
    {**STEPS, "n": 0},
    {**STEPS, "flags": base(b"\0\4")},
    {**STEPS, "flags": "no base64!"},
    {**STEPS, "action": column(">i8", [], bytes(16))},
    {**STEPS, "action": column("<O8", [], bytes(16))},
    {**STEPS, "action": [1]},
    {**STEPS, "action": 7},
    {**STEPS, "reward": column("<f8", [2], bytes(32))},
    {**STEPS, "reward": [1, 2]},
    {**STEPS, "obs": column("<f4", [-4], bytes(32))},
    {**STEPS, "obs_hash": base(bytes(15))},
    {**STEPS, "action": [["x" * LARGEST_VALUE], 1]},
    {"type": "episode", "episode_id": "a", "steps": 1, "return": "high"},
    {"type": "episode", "episode_id": "a", "return": 1},
    {"type": "metric", "name": "loss"},
    {"type": "metric", "name": 1.5, "value": 1},
    {"type": "metrics", "values": {}},
    {"type": "metrics", "values": {"x": 1, "y": None}},
    {"type": "metric", "name": "x", "value": 1, "step": 1.5},
    {"type": "env", "slot": 0, "env_id": "E", "kwargs": [1]},
    {"type": "env", "slot": 0, "env_id": "E", "versions": {"numpy": None}},
    {"type": "reset", "episode_id": "a", "slot": 0},
    {"type": "config", "args": "x" * LARGEST_VALUE},
    {"type": "artifact", "kind": "video"},
    {"type": "artifact", "kind": "video", "path": 7},
    {"type": "progress", "step": "7"},
]


@pytest.mark.parametrize("said", MALFORMED, ids=lambda said: str(said)[:60])
def test_a_malformed_object_is_a_log_line_and_marked(said: object) -> None:
    event = read(said)
    assert isinstance(event, Line)
    assert event.malformed
    line = said if isinstance(said, bytes) else json.dumps(said).encode()
    assert event.text == line.decode("utf-8", "replace")


@pytest.mark.parametrize("line", ["hello", "", "{'lr': 0.1}", "{", "[1, 2]", "42", "null", '"text"', "{}"])
def test_plain_text_is_a_log_line_and_nothing_else(line: str) -> None:
    assert read(line.encode()) == Line(line)


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert read(b"a\xff\xc3\xa9b") == Line("a�éb")


def test_stderr_does_not_speak_the_protocol_and_is_not_malformed() -> None:
    reader = ProtocolReader()
    for said in (STEP, {"level": "info"}):
        line = json.dumps(said)
        assert reader.read(line.encode(), 0, speaks=False) == Line(line)


def test_a_secret_is_taken_out_of_texts_and_not_out_of_columns() -> None:
    secret = "AAAA"  # what zeros look like in base64
    redact = Redactor({"TOKEN": secret})
    block = read({**STEPS, "episode_id": f"e-{secret}"}, redact=redact)
    assert isinstance(block, StepBlock)
    assert (block.episode_id, block.action.data) == ("e-[secret TOKEN]", bytes(16))
    config = read({"type": "config", "args": {"data": secret, secret: [secret]}}, redact=redact)
    assert isinstance(config, Config)
    assert secret not in config.text
    assert read(f"token {secret}".encode(), redact=redact) == Line("token [secret TOKEN]")
    bad = read(f'{{"type": "{secret}"}}'.encode(), redact=redact)
    assert bad == Line('{"type": "[secret TOKEN]"}', malformed=True)


FIELDS = sorted(
    {field for said in (STEP, STEPS) for field in said} | {"return", "steps", "name", "value", "values"}
)
TYPES = ["step", "steps", "episode", "metric", "metrics", "env", "reset", "artifact", "progress", "config"]
SIMPLE = st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(), max_size=8)
JSON = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
ALMOST = st.tuples(
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from([*FIELDS, "kind", "path", "ordinal", "env_id"]), JSON),
).map(lambda drawn: {**STEPS, **STEP, **drawn[1], "type": drawn[0]})


@given(st.binary(max_size=80) | (JSON | ALMOST).map(lambda said: json.dumps(said).encode()))
def test_nothing_a_trainer_prints_stops_the_reader(line: bytes) -> None:
    for redact in (None, Redactor({"TOKEN": "AAAA"})):
        ProtocolReader(redact).read(line, NOW)
        ProtocolReader(redact).read(line, NOW, speaks=False)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"type": "step", "episode_id": "a"}', '"action" is missing'),
        (b'{"type": "stop"}', 'its "type" is not one of the protocol'),
        (b'{"kind": 1}', '"type" is missing'),
        (b'{"type": "metric", "name": "x", "value": "high"}', "not a number"),
        (b'{"type": "metric", ', "it is not JSON"),
    ],
)
def test_what_is_wrong_with_a_malformed_object_is_told(line: bytes, why: str) -> None:
    reader = ProtocolReader()
    event = reader.read(line, 0)
    assert isinstance(event, Line)
    assert event.malformed
    assert reader.why == why
