"""Batches become tables and come back as they were, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.services.telemetry.core import parquet, steps
from runspine.services.telemetry.core.rows import (
    ENVS,
    EPISODES,
    LOGS,
    METRICS,
    STEPS,
    Arrival,
    placed_steps,
)
from runspine.services.telemetry.core.segments import arrivals_of, join_segments, make_segments, tables_of
from runspine.services.telemetry.core.step_counter import PlacedBlock
from runspine.wire.v1.telemetry_pb2 import (
    Array,
    Batch,
    EnvBatch,
    EnvMade,
    Episode,
    EpisodeBatch,
    LogBatch,
    LogLine,
    MetricBatch,
    MetricBlock,
    Reset,
    StepBatch,
    StepBlock,
)

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
DTYPES = [
    "<f2",
    "<f4",
    "<f8",
    "|i1",
    "<i2",
    "<i4",
    "<i8",
    "|u1",
    "<u2",
    "<u4",
    "<u8",
    "|b1",
    ">f4",
    "<c8",
    "<U3",
]
TEXT = st.text(max_size=6)


@st.composite
def arrays(draw: Any, count: int) -> Array:
    """Any bits at all, so NaNs with payloads, −0.0 and booleans that are neither 0 nor 1."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=2))
    size = count * int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    return Array(dtype=dtype, shape=shape, data=draw(st.binary(min_size=size, max_size=size)))


@st.composite
def blocks(draw: Any) -> StepBlock:
    count = draw(st.integers(0, 4))
    block = StepBlock(
        episode_id=draw(TEXT),
        slot=draw(U32),
        agent_id=draw(st.sampled_from(["", "a", "b"])),
        first_step=draw(U64),
        count=count,
        flags=draw(st.binary(min_size=count, max_size=count)),
        first_at=draw(I64),
        last_at=draw(I64),
        global_step=draw(U64),
        actor=draw(st.sampled_from(["", "", "human", "policy:ab"])),
    )
    texts = st.lists(TEXT, min_size=count, max_size=count)
    match draw(st.integers(0, 2)):
        case 0:
            block.action.CopyFrom(draw(arrays(count)))
        case 1:
            block.action_json.extend(draw(texts))
    if draw(st.integers(0, 9)):
        block.reward.CopyFrom(draw(arrays(count)))
    match draw(st.integers(0, 3)):
        case 0:
            block.observation.CopyFrom(draw(arrays(count)))
        case 1:
            block.observation_hash = draw(st.binary(min_size=8 * count, max_size=8 * count))
        case 2:
            block.observation_json.extend(draw(texts))
    return block


def through_parquet(placed: list[PlacedBlock]) -> list[PlacedBlock]:
    found: list[PlacedBlock] = []
    for table in steps.encode(placed, {}).values():
        found += steps.decode(parquet.from_bytes(parquet.to_bytes(table)))
    return sorted(found, key=lambda item: (item.position, item.order))


@given(st.lists(blocks(), min_size=1, max_size=14))
def test_steps_come_back_bit_for_bit(sent: list[StepBlock]) -> None:
    placed = [PlacedBlock(1 + at // 3, 1 + at // 5, at % 3, block) for at, block in enumerate(sent)]
    assert through_parquet(placed) == placed


def test_nan_payloads_and_signed_zeros_survive() -> None:
    bits = np.array([0x7FC00001, 0x7FC00002, 0xFFC0DEAD, 0x80000000, 0x00000000], "<u4")
    column = Array(dtype="<f4", data=bits.tobytes())
    block = StepBlock(count=5, action=column, reward=column, observation=column, flags=bytes(5))
    assert len(steps.encode([PlacedBlock(1, 1, 0, block)], {})) == 1
    assert through_parquet([PlacedBlock(1, 1, 0, block)])[0].block == block


def test_blocks_of_many_forms_share_at_most_a_few_tables() -> None:
    one = [
        StepBlock(
            count=1, flags=b"\0", reward=Array(dtype="<f8", data=bytes(8)),
            action=Array(dtype="<i8", shape=[n], data=bytes(8 * n)),
        )
        for n in range(1, 40)
    ]  # fmt: skip
    placed = [PlacedBlock(1, 1, at, block) for at, block in enumerate(one)]
    assert len(steps.encode(placed, {})) <= steps.MAX_VARIANTS + 1
    assert through_parquet(placed) == placed


floats = st.floats(width=64)


@st.composite
def metric_blocks(draw: Any) -> MetricBlock:
    n = draw(st.integers(1, 5))
    received = st.booleans()
    return MetricBlock(
        name=draw(st.sampled_from(["loss", "a", "z/é"])),
        values=draw(st.lists(floats, min_size=n, max_size=n)),
        steps=draw(st.lists(U64, min_size=n, max_size=n)) if draw(received) else [],
        at=draw(st.lists(I64, min_size=n, max_size=n)) if draw(received) else [],
    )


episodes = st.builds(
    lambda value, **rest: Episode(**rest, **{"return": value}),
    floats,
    episode_id=TEXT, slot=U32, agent_id=TEXT, steps=st.none() | U64, ended_at=I64, global_step=U64, flags=U32,
)  # fmt: skip
lines = st.builds(LogLine, number=U64, at=I64, source=st.integers(0, 3), text=TEXT)
resets = st.builds(
    Reset, episode_id=TEXT, slot=U32, rng_json=TEXT, ordinal=U64, observation=arrays(1), at=I64
)
mades = st.builds(EnvMade, slot=U32, env_id=TEXT, versions=st.dictionaries(TEXT, TEXT, max_size=2), at=I64)

CONTENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    METRICS: st.lists(metric_blocks(), min_size=1, max_size=4).map(
        lambda b: {"metrics": MetricBatch(blocks=b)}
    ),
    EPISODES: st.lists(episodes, min_size=1, max_size=4).map(
        lambda e: {"episodes": EpisodeBatch(episodes=e)}
    ),
    LOGS: st.lists(lines, min_size=1, max_size=4).map(lambda found: {"logs": LogBatch(lines=found)}),
    ENVS: st.lists(resets, min_size=1, max_size=4).map(lambda r: {"envs": EnvBatch(resets=r)}),
}


@pytest.mark.parametrize("kind", CONTENTS)
@settings(max_examples=60)
@given(data=st.data())
def test_every_other_kind_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
    contents = data.draw(st.lists(CONTENTS[kind], min_size=1, max_size=5))
    sent = [Arrival(10 + at, Batch(attempt=1 + at // 3, **content)) for at, content in enumerate(contents)]
    [table] = tables_of(kind, sent, {}).values()
    found = list(arrivals_of(kind, parquet.from_bytes(parquet.to_bytes(table))))
    # By bytes: NaN is not equal to itself.
    assert [(a.position, a.batch.SerializeToString(deterministic=True)) for a in found] == [
        (a.position, a.batch.SerializeToString(deterministic=True)) for a in sent
    ]


@given(st.lists(st.one_of(mades, resets), min_size=1, max_size=5), st.lists(TEXT, max_size=2))
def test_what_envs_are_comes_back_too(emitted: list[Any], configs: list[str]) -> None:
    batch = EnvBatch(
        made=[s for s in emitted if isinstance(s, EnvMade)],
        resets=[s for s in emitted if isinstance(s, Reset)],
        configs=configs,
    )
    back = EnvBatch()
    for table in tables_of(ENVS, [Arrival(1, Batch(attempt=1, envs=batch))], {}).values():
        for arrival in arrivals_of(ENVS, parquet.from_bytes(parquet.to_bytes(table))):
            back.MergeFrom(arrival.batch.envs)
    assert back == batch


def block(first: int, count: int, counter: int, episode: str = "e") -> StepBlock:
    return StepBlock(
        episode_id=episode, first_step=first, count=count, global_step=counter, flags=bytes(count),
        action=Array(dtype="<i8", data=bytes(8 * count)), reward=Array(dtype="<f8", data=bytes(8 * count)),
        first_at=1000, last_at=1000 + 10 * (count - 1),
    )  # fmt: skip


def counted(placed: list[PlacedBlock], before: dict[int, int]) -> list[int]:
    [table] = steps.encode(placed, before).values()
    return [int(value) for value in steps.row_counters(table)]  # type: ignore[attr-defined]


def test_a_counter_that_was_reported_once_is_carried_on() -> None:
    emitted = [PlacedBlock(1, 1, 0, block(0, 3, 7)), PlacedBlock(1, 1, 1, block(3, 2, 0))]
    assert counted(emitted, {}) == [7, 8, 9, 10, 11]


def test_a_counter_that_was_never_reported_counts_the_attempts_steps() -> None:
    silent = [PlacedBlock(1, 2, 0, block(0, 2, 0)), PlacedBlock(2, 2, 0, block(0, 2, 0, "f"))]
    assert counted(silent, {2: 40}) == [40, 41, 42, 43]


def test_a_batch_that_was_sent_again_has_the_counter_of_its_place() -> None:
    # The first of four batches, which reports counter 0, is stored after the two that follow it.
    parts = [block(0, 3, 0), block(3, 3, 3), block(6, 3, 6), block(9, 3, 9)]
    first, second, third, fourth = (
        PlacedBlock(position, 1, 0, part, 3 * at)
        for at, (position, part) in enumerate(zip((30, 10, 20, 40), parts, strict=True))
    )
    assert counted([second, third, first, fourth], {}) == [3, 4, 5, 6, 7, 8, 0, 1, 2, 9, 10, 11]
    # Stored by another commit, and alone, as the end of the stream is read.
    assert counted([first], {1: 6}) == [0, 1, 2]
    assert counted([third], {}) == [6, 7, 8]


def test_what_is_missing_between_two_blocks_is_no_stride() -> None:
    parts = [PlacedBlock(1, 1, 0, block(0, 3, 0), 0), PlacedBlock(2, 1, 0, block(6, 3, 6), 6)]
    assert counted(parts, {}) == [0, 1, 2, 6, 7, 8]


def test_slots_that_step_together_share_the_counter() -> None:
    both = [
        PlacedBlock(1, 1, order, StepBlock.FromString(part.SerializeToString()))
        for order, part in enumerate([block(0, 4, 100), block(0, 4, 101), block(4, 4, 108), block(4, 4, 109)])
    ]
    for item, slot in zip(both, (0, 1, 0, 1), strict=True):
        item.block.slot = slot
    assert counted(both, {})[:8] == [100, 102, 104, 106, 101, 103, 105, 107]


def test_steps_after_the_point_of_resumption_are_left_out_and_blocks_are_cut() -> None:
    placed = [
        PlacedBlock(1, 1, 0, block(0, 4, 10)),
        PlacedBlock(2, 1, 0, block(4, 4, 14)),
        PlacedBlock(3, 2, 0, block(4, 4, 14)),
    ]
    [table] = steps.encode(placed, {}).values()
    found = list(steps.decode(steps.visible_steps(table, {1: 16})))
    assert [(f.attempt, f.block.first_step, f.block.count) for f in found] == [
        (1, 0, 4),
        (1, 4, 2),
        (2, 4, 4),
    ]
    assert found[1].block.last_at == 1010
    assert len(found[1].block.reward.data) == 16
    assert [f.attempt for f in steps.decode(steps.visible_steps(table, {1: -1}))] == [2]


def test_a_batch_of_an_unknown_kind_is_kept_as_it_came() -> None:
    # Field 99, as a newer worker might write it.
    data = Batch(run_id="r", attempt=1, number=3).SerializeToString() + b"\x9a\x06\x03new"
    [table] = tables_of("other", [Arrival(7, Batch.FromString(data))], {}).values()
    [back] = arrivals_of("other", parquet.from_bytes(parquet.to_bytes(table)))
    assert (back.position, back.batch.SerializeToString()) == (7, data)


def test_joined_segments_hold_the_rows_of_all() -> None:
    arrivals = [
        Arrival(
            at, Batch(attempt=1, metrics=MetricBatch(blocks=[MetricBlock(name=n, values=[at], steps=[at])]))
        )
        for at, n in enumerate("zbzabz", 1)
    ]
    parts = [make_segments("r", METRICS, arrivals[i : i + 2], {})[0] for i in (0, 2, 4)]
    tables = [parquet.from_bytes(part.objects[part.segment.key]) for part in parts]
    made = join_segments([part.segment for part in parts], tables)
    table = parquet.from_bytes(made.objects[made.segment.key])
    assert list(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True)) == [
        ("a", 4), ("b", 2), ("b", 5), ("z", 1), ("z", 3), ("z", 6),
    ]  # fmt: skip
    assert [a.position for a in arrivals_of(METRICS, table)] == [1, 2, 3, 4, 5, 6]
    assert (made.segment.first, made.segment.last, made.segment.rows) == (1, 6, 6)


def test_a_segment_records_how_many_steps_each_attempt_has() -> None:
    odd = StepBlock(count=3, flags=b"\0")
    arrivals = [
        Arrival(1, Batch(attempt=1, steps=StepBatch(blocks=[block(0, 4, 1), odd]))),
        Arrival(2, Batch(attempt=2, steps=StepBatch(blocks=[block(0, 5, 1)]))),
    ]
    made = {m.segment.variant: m.segment for m in make_segments("r", STEPS, arrivals, {})}
    counts = {v: {a.attempt: a.rows for a in s.attempts} for v, s in made.items()}
    assert counts.pop("raw") == {1: 3}
    assert list(counts.values()) == [{1: 4, 2: 5}]
    assert len(placed_steps(arrivals)) == 3
