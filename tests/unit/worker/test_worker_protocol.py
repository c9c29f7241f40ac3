"""The reader of protocol v1: what each line means, and that no line is an error."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.services.worker.protocol.events import (
    ArtifactEvent,
    ConfigEvent,
    Event,
    LogLine,
    MetricsEvent,
    ProgressEvent,
    StepEvent,
)
from runspine.services.worker.protocol.parsers import MAX_VALUE_BYTES
from runspine.services.worker.protocol.reader import ProtocolReader
from runspine.services.worker.protocol.redact import Redactor
from runspine.wire.v1.telemetry_pb2 import EnvMade, Episode, Reset, StepBlock
from tests.kit.samples.protocol import STEPS, base, column

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


def read(emitted: object, **how: Any) -> Event:
    line = emitted if isinstance(emitted, bytes) else json.dumps(emitted).encode()
    return ProtocolReader(**how).read(line, NOW)


def test_a_step_keeps_the_trainers_own_values() -> None:
    emitted = {
        **STEP,
        "slot": 2,
        "agent_id": "red",
        "obs": [0.5, 1],
        "t": 1.5,
        "global_step": 99,
        "action": [1, 2],
    }
    event = read({**emitted, "terminated": True, "truncated": True})
    assert isinstance(event, StepEvent)
    assert event[:-2] == ("a", 2, "red", 4, [1, 2], 1.0, 3, [0.5, 1], 1_500_000, 99)


def test_what_a_step_leaves_out_has_a_default() -> None:
    event = read(STEP)
    assert isinstance(event, StepEvent)
    assert (event.slot, event.agent_id, event.obs, event.at, event.global_step) == (0, "", None, NOW, 0)


def test_a_number_may_name_an_episode() -> None:
    event = read({**STEP, "episode_id": 17, "agent_id": 0})
    assert isinstance(event, StepEvent)
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
    assert read({"type": "metric", "name": "x", "value": 1, "step": 7}) == MetricsEvent({"x": 1.0}, 7, NOW)
    assert read({"type": "metrics", "values": {"x": 1, "y": 2.5}}) == MetricsEvent(
        {"x": 1.0, "y": 2.5}, None, NOW
    )
    env = read({"type": "env", "slot": 1, "env_id": "E", "kwargs": {"a": [1]}, "versions": {"numpy": "2"}})
    assert env == EnvMade(slot=1, env_id="E", kwargs_json='{"a":[1]}', versions={"numpy": "2"}, at=NOW)
    config = read({"type": "config", "algo": "ppo", "args": {"lr": 1e-3}})
    assert isinstance(config, ConfigEvent)
    assert json.loads(config.text) == {"type": "config", "algo": "ppo", "args": {"lr": 1e-3}}
    artifact = read({"type": "artifact", "kind": "video", "path": "v.mp4", "meta": {"fps": 30}})
    assert isinstance(artifact, ArtifactEvent)
    assert artifact.fields["meta"] == {"fps": 30}
    assert read({"type": "progress", "step": 5, "total": 10}) == ProgressEvent(5, 10)


def test_the_state_of_a_generator_stays_exact() -> None:
    state = {"bit_generator": "PCG64", "state": {"state": 2**127 + 1, "inc": 3**70}}
    emitted = {
        "type": "reset",
        "episode_id": "a",
        "slot": 0,
        "ordinal": 2,
        "seed": 2**70,
        "rng": state,
        "obs": [1],
    }
    event = read(emitted)
    assert isinstance(event, Reset)
    assert json.loads(event.rng_json) == state
    assert (json.loads(event.seed_json), event.options_json, event.observation_json) == (2**70, "", "[1]")


def test_a_reset_may_carry_its_observation_as_a_column_or_a_hash() -> None:
    emitted = {"type": "reset", "episode_id": "a", "slot": 0, "ordinal": 0}
    whole, hashed = (
        read({**emitted, "obs": column("<f4", [2], bytes(8))}),
        read({**emitted, "obs_hash": base(bytes(8))}),
    )
    assert isinstance(whole, Reset)
    assert isinstance(hashed, Reset)
    assert (whole.observation.data, hashed.observation_hash) == (bytes(8), bytes(8))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_may_be_nan_or_infinite(value: float) -> None:
    step = read({**STEP, "reward": value, "action": value, "obs": [value, 1.0]})
    assert isinstance(step, StepEvent)
    metric = read({"type": "metric", "name": "x", "value": value})
    assert isinstance(metric, MetricsEvent)
    for seen in (step.reward, step.action, step.obs[0], metric.values["x"]):
        assert seen == value or (math.isnan(seen) and math.isnan(value))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [1, [2**90]], {"a": 3**80}])
def test_a_large_integer_stays_exact(value: object) -> None:
    event = read({**STEP, "action": value, "obs": value})
    assert isinstance(event, StepEvent)
    assert (event.action, event.obs) == (value, value)


def test_an_object_may_be_indented() -> None:
    assert isinstance(read(b'  { "type": "progress", "step": 1 }'), ProgressEvent)


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
    {**STEP, "action": "x" * MAX_VALUE_BYTES},
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
    {**STEPS, "action": [["x" * MAX_VALUE_BYTES], 1]},
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
    {"type": "config", "args": "x" * MAX_VALUE_BYTES},
    {"type": "artifact", "kind": "video"},
    {"type": "artifact", "kind": "video", "path": 7},
    {"type": "progress", "step": "7"},
]


@pytest.mark.parametrize("emitted", MALFORMED, ids=lambda emitted: str(emitted)[:60])
def test_a_malformed_object_is_a_log_line_and_marked(emitted: object) -> None:
    event = read(emitted)
    assert isinstance(event, LogLine)
    assert event.malformed
    line = emitted if isinstance(emitted, bytes) else json.dumps(emitted).encode()
    assert event.text == line.decode("utf-8", "replace")


@pytest.mark.parametrize("line", ["hello", "", "{'lr': 0.1}", "{", "[1, 2]", "42", "null", '"text"', "{}"])
def test_plain_text_is_a_log_line_and_nothing_else(line: str) -> None:
    assert read(line.encode()) == LogLine(line)


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert read(b"a\xff\xc3\xa9b") == LogLine("a�éb")


def test_stderr_does_not_speak_the_protocol_and_is_not_malformed() -> None:
    reader = ProtocolReader()
    for emitted in (STEP, {"level": "info"}):
        line = json.dumps(emitted)
        assert reader.read(line.encode(), 0, protocol=False) == LogLine(line)


def test_a_secret_is_taken_out_of_texts_and_not_out_of_columns() -> None:
    secret = "AAAA"  # what zeros look like in base64
    redact = Redactor({"TOKEN": secret})
    block = read({**STEPS, "episode_id": f"e-{secret}"}, redact=redact)
    assert isinstance(block, StepBlock)
    assert (block.episode_id, block.action.data) == ("e-[secret TOKEN]", bytes(16))
    config = read({"type": "config", "args": {"data": secret, secret: [secret]}}, redact=redact)
    assert isinstance(config, ConfigEvent)
    assert secret not in config.text
    assert read(f"token {secret}".encode(), redact=redact) == LogLine("token [secret TOKEN]")
    bad = read(f'{{"type": "{secret}"}}'.encode(), redact=redact)
    assert bad == LogLine('{"type": "[secret TOKEN]"}', malformed=True)


FIELDS = sorted(
    {field for emitted in (STEP, STEPS) for field in emitted} | {"return", "steps", "name", "value", "values"}
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


@given(st.binary(max_size=80) | (JSON | ALMOST).map(lambda emitted: json.dumps(emitted).encode()))
def test_nothing_a_trainer_prints_stops_the_reader(line: bytes) -> None:
    for redact in (None, Redactor({"TOKEN": "AAAA"})):
        ProtocolReader(redact).read(line, NOW)
        ProtocolReader(redact).read(line, NOW, protocol=False)


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
def test_what_is_wrong_with_a_malformed_object_is_reported(line: bytes, why: str) -> None:
    reader = ProtocolReader()
    event = reader.read(line, 0)
    assert isinstance(event, LogLine)
    assert event.malformed
    assert reader.why == why
