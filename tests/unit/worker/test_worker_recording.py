"""What a trainer reports is what is kept: counted right, in batches that fit."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.services.worker.telemetry.assembly.assembler import AGENT_RETURN, BatchAssembler
from runspine.services.worker.telemetry.assembly.batches import KINDS
from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.wire.v1.spec_pb2 import EVALUATE, FULL, NONE, TRAIN, Capture, RunSpec
from runspine.wire.v1.telemetry_pb2 import STDERR, STDOUT, WORKER, Batch, LogLine
from tests.kit.samples.columns import actions_of, observations_of, values_of

SECOND = 1_000_000


def recording(**spec: Any) -> BatchAssembler:
    return BatchAssembler("run", 1, RunSpec(total_steps=1000, **spec))


def step(number: int, **fields: Any) -> dict[str, Any]:
    emitted = {"type": "step", "episode_id": "a", "step": number, "action": 1, "reward": 1.0}
    return {**emitted, "terminated": False, "truncated": False, **fields}


def emit(subject: BatchAssembler, *emitted: object, at: int = 0, source: Any = STDOUT) -> list[str | None]:
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in emitted]
    return [subject.take(line, source, at) for line in lines]


def cut(subject: BatchAssembler) -> list[Batch]:
    return parsed(subject.cut(0, final=True))


def parsed(records: list[SpoolRecord]) -> list[Batch]:
    batches = [Batch.FromString(record.payload) for record in records]
    for record, batch in zip(records, batches, strict=True):
        assert (batch.run_id, batch.attempt, batch.number) == ("run", 1, record.number)
        assert len(record.payload) <= 512 << 10
        kind = {"logs": "log", "steps": "step", "episodes": "episode", "metrics": "metric", "envs": "env"}
        kind["evaluations"] = "evaluation"
        assert kind[batch.WhichOneof("kind") or ""] == KINDS[record.kind - 1]
    return batches


def lines_of(batches: list[Batch]) -> list[LogLine]:
    return [line for batch in batches for line in batch.logs.lines]


def test_everything_received_is_in_a_batch_and_counted() -> None:
    subject = recording()
    files: list[dict[str, Any]] = []
    subject.on_artifact = files.append
    kept = emit(
        subject,
        {"type": "config", "algo": "ppo"},
        {"type": "env", "slot": 0, "env_id": "E", "kwargs": {}, "versions": {}},
        {"type": "reset", "episode_id": "a", "slot": 0, "ordinal": 0},
        step(0),
        step(1, terminated=True),
        {"type": "episode", "episode_id": "a", "steps": 2, "return": 2.0},
        {"type": "metrics", "values": {"x": 1, "y": math.nan}, "step": 5},
        {"type": "metric", "name": "x", "value": 3},
        {"type": "artifact", "kind": "video", "path": "v.mp4"},
        b"hello",
        {"type": "unknown"},
    )
    assert kept == [None] * 9 + ["hello", '{"type": "unknown"}']
    counts = subject.counts
    assert (counts.steps, counts.episodes, counts.metrics, counts.log_lines, counts.malformed) == (
        2,
        1,
        3,
        4,  # two of the worker: a malformed line, a metric that is not finite
        1,
    )
    assert [emitted["path"] for emitted in files] == ["v.mp4"]
    env, steps, episodes, metrics, logs = cut(subject)
    assert (len(env.envs.configs), len(env.envs.made), len(env.envs.resets)) == (1, 1, 1)
    assert [actions_of(block) for block in steps.steps.blocks] == [[1, 1]]
    assert [getattr(episode, "return") for episode in episodes.episodes.episodes] == [2.0]
    x, y = metrics.metrics.blocks
    # Without a step of its own a point is at the step the run has reached.
    assert (x.name, list(x.values), list(x.steps)) == ("x", [1.0, 3.0], [5, 5])
    assert math.isnan(y.values[0])
    first, hello, remark, unknown = logs.logs.lines
    assert (first.source, "y" in first.text) == (WORKER, True)
    assert (hello.text, unknown.text) == ("hello", '{"type": "unknown"}')
    assert remark.source == WORKER
    assert 'its "type" is not one of the protocol' in remark.text
    assert subject.empty


def test_numbers_run_over_all_kinds_and_all_cuts() -> None:
    subject = recording()
    numbers = []
    for index in range(3):
        emit(subject, step(index), b"text")
        numbers += [record.number for record in subject.cut(0, everything=True)]
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_what_is_not_enough_waits_and_what_is_enough_does_not() -> None:
    subject = recording()
    emit(subject, b"one")
    assert subject.cut(0) == []
    assert not subject.empty
    emit(subject, *[step(number, obs=[0.1234567890123] * 4) for number in range(3000)])
    records = subject.cut(0)
    assert [KINDS[record.kind - 1] for record in records] == ["step"]
    assert 16 << 10 <= records[0].size <= 192 << 10


def test_a_large_line_is_kept_in_pieces() -> None:
    subject = recording()
    text = "é" * (1 << 20)
    assert emit(subject, text.encode()) == [text]
    lines = lines_of(cut(subject))
    assert "".join(line.text for line in lines) == text
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert subject.counts.log_lines == len(lines)


def test_large_observations_are_hashed_whole_ones_cut_into_batches() -> None:
    frame = [[7] * 84] * 84
    hashed, whole = recording(), recording(capture=Capture(observations=FULL))
    for subject in (hashed, whole):
        emit(subject, *[step(number, obs=frame) for number in range(20)])
    (batch,) = cut(hashed)
    assert [len(block.observation_hash) for block in batch.steps.blocks] == [20 * 8]
    batches = cut(whole)
    assert len(batches) >= 4
    rows = [row for batch in batches for block in batch.steps.blocks for row in observations_of(block)]
    assert rows == [frame] * 20


def test_a_row_too_large_for_a_batch_is_hashed_and_reported_once() -> None:
    subject = recording(capture=Capture(observations=FULL))
    emit(subject, *[step(number, obs=[1.5] * 40_000) for number in range(3)])
    batches = cut(subject)
    received = [line for line in lines_of(batches) if line.source == WORKER]
    assert len(received) == 1
    assert "hashes are kept" in received[0].text
    assert [block.count for batch in batches for block in batch.steps.blocks if block.observation_hash] == [3]
    emit(subject, step(3, obs=[1.5] * 40_000))
    assert lines_of(cut(subject)) == []


def test_nothing_is_kept_of_observations_when_nothing_is_wanted() -> None:
    subject = recording(capture=Capture(observations=NONE))
    emit(subject, step(0, obs=[1.0]))
    (batch,) = cut(subject)
    block = batch.steps.blocks[0]
    assert not block.HasField("observation")
    assert not block.observation_hash


def test_progress_is_the_furthest_step_and_the_last_return() -> None:
    subject = recording()
    emit(subject, step(41), {"type": "metric", "name": "x", "value": 1, "step": 10240})
    emit(subject, {"type": "episode", "episode_id": "a", "steps": 42, "return": 241.7})
    progress = subject.progress(6 * SECOND)
    assert (progress.step, progress.total_steps, progress.episodes) == (10240, 1000, 1)
    assert progress.last_return == 241.7
    emit(subject, {"type": "progress", "step": 20000, "total": 50000})
    progress = subject.progress(7 * SECOND)
    assert (progress.step, progress.total_steps) == (20000, 50000)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    subject = recording()
    for second in range(120):
        reached = second * 10 if second < 60 else 590 + (second - 59) * 100
        emit(subject, {"type": "metric", "name": "x", "value": 1, "step": reached}, at=second * SECOND)
    assert subject.progress(119 * SECOND).steps_per_second == pytest.approx(100, rel=0.01)


def test_stderr_is_log_lines_only() -> None:
    subject = recording()
    assert emit(subject, step(0), source=STDERR) == [json.dumps(step(0))]
    assert (subject.counts.steps, subject.counts.malformed, subject.counts.log_lines) == (0, 0, 1)


ANY_TEXT = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=20)
NUMBERS = st.floats() | st.integers(-(2**40), 2**40)
VALUES = st.recursive(
    st.booleans() | NUMBERS | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
STEPS = st.builds(
    step,
    st.integers(0, 3),
    action=VALUES,
    reward=NUMBERS,
    episode_id=st.sampled_from(["a", "b"]),
    agent_id=st.sampled_from(["red", "blue"]),
    slot=st.integers(0, 1),
    terminated=st.booleans(),
    obs=st.none() | VALUES,
)
# Returns of agents are counted apart.
NAMES = ANY_TEXT.filter(lambda name: not name.startswith(AGENT_RETURN))
METRICS = st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=3).map(
    lambda values: {"type": "metrics", "values": values}
)
EPISODES = st.builds(
    lambda name, value: {"type": "episode", "episode_id": name, "steps": 1, "return": value},
    ANY_TEXT,
    NUMBERS,
)
CONFIGS = st.dictionaries(ANY_TEXT, VALUES, max_size=2).map(lambda args: {"type": "config", "args": args})
PLAIN = ANY_TEXT.filter(lambda text: not text.strip().startswith("{") and "episodic_return" not in text)
LINES = st.lists(
    st.one_of(STEPS, METRICS, EPISODES, CONFIGS).map(lambda emitted: ("object", json.dumps(emitted).encode()))
    | PLAIN.map(lambda text: ("plain", text.encode()))
    | st.binary(max_size=30).filter(lambda data: b"\n" not in data).map(lambda data: ("bytes", data))
    | ANY_TEXT.map(lambda text: ("broken", b'{"' + text.encode())),
    max_size=40,
)


@given(LINES, st.lists(st.integers(0, 40), max_size=4))
def test_as_much_is_kept_as_was_given(lines: list[tuple[str, bytes]], cuts: list[int]) -> None:
    subject = recording()
    batches: list[Batch] = []
    for index, (_, line) in enumerate(lines):
        subject.take(line, STDOUT, index)
        if index in cuts:
            batches += parsed(subject.cut(index, everything=True))
    batches += cut(subject)
    assert [batch.number for batch in batches] == list(range(1, len(batches) + 1))
    emitted = [json.loads(line) for kind, line in lines if kind == "object"]
    steps = [each for each in emitted if each["type"] == "step"]
    kept = [block for batch in batches for block in batch.steps.blocks]
    assert sum(block.count for block in kept) == subject.counts.steps == len(steps)
    assert same_multiset(
        [repr(value) for block in kept for value in values_of(block.reward, block.count)],
        [repr(float(each["reward"])) for each in steps],
    )
    assert same_multiset(
        [value for block in kept for value in actions_of(block)], [s["action"] for s in steps]
    )
    points = [value for each in emitted if each["type"] == "metrics" for value in each["values"].values()]
    blocks = [block for batch in batches for block in batch.metrics.blocks]
    # Returns of several agents are series of their own.
    agents = sum(len(block.values) for block in blocks if block.name.startswith(AGENT_RETURN))
    assert sum(len(block.values) for block in blocks) == subject.counts.metrics == len(points) + agents
    configs = [text for batch in batches for text in batch.envs.configs]
    assert configs == [json.dumps(s, separators=(",", ":")) for s in emitted if s["type"] == "config"]
    ended = [episode for batch in batches for episode in batch.episodes.episodes]
    assert len(ended) == subject.counts.episodes
    own = [each for each in emitted if each["type"] == "episode"]
    assert len(ended) == len(own) if own else len(ended) == sum(each["terminated"] for each in steps)
    words = lines_of(batches)
    assert len(words) == subject.counts.log_lines
    # The worker's own lines: one for malformed lines, and one for each metric that was not finite.
    infinite = {
        name
        for each in emitted
        if each["type"] == "metrics"
        for name, value in each["values"].items()
        if not math.isfinite(value)
    }
    own_lines = sum(line.source == WORKER for line in words)
    assert own_lines == min(1, subject.counts.malformed) + len(infinite)
    assert [line.text for line in words if line.source != WORKER] == [
        line.decode("utf-8", "replace") for kind, line in lines if kind != "object"
    ]
    assert subject.counts.malformed == sum(is_object(line) for kind, line in lines if kind != "object")


def is_object(line: bytes) -> bool:
    return line.lstrip(b" \t").startswith(b"{") and line.lstrip(b" \t")[1:].lstrip(b" \t").startswith(b'"')


def same_multiset(left: list[Any], right: list[Any]) -> bool:
    return sorted(map(canonical, left)) == sorted(map(canonical, right))


def canonical(value: Any) -> str:
    """Text that is the same for 1 and 1.0, because a column may hold either."""
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{canonical(each)}" for key, each in value.items()) + "}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    return repr(value)


def test_each_batch_of_an_evaluation_is_a_point_of_its_series_and_no_progress() -> None:
    batches = [
        {"type": "evaluation", "returns": [1.0, 5.0], "lengths": [3, 4], "seconds": 2.5, "batch": number}
        for number in range(2)
    ]
    subject = recording(mode=EVALUATE)
    emit(subject, *batches)
    [metrics] = [batch.metrics for batch in cut(subject) if batch.HasField("metrics")]
    series = {block.name: (list(block.steps), list(block.values)) for block in metrics.blocks}
    figures = {"mean": 3.0, "std": 2.0, "min": 1.0, "max": 5.0, "median": 3.0, "duration": 2.5}
    assert series == {f"eval/{name}": ([1, 2], [value] * 2) for name, value in figures.items()}
    assert subject.counts.metrics == 12
    assert subject.progress(0).step == 0
    training = recording(mode=TRAIN)
    emit(training, *batches)
    assert training.counts.metrics == 0, "the names are free for what a trainer logs itself"


def test_progress_counts_actions_of_the_training_and_no_frames_or_evaluation() -> None:
    subject = recording()
    emit(subject, {"type": "env", "slot": 0, "env_id": "Pong", "frame_skip": 4})
    emit(subject, *(step(number, global_step=number // 4) for number in range(400)))
    emit(subject, *(step(number, slot=1, episode_id="eval-1-0") for number in range(500)))
    assert subject.counts.steps == 900
    assert subject.progress(2).step == 100
