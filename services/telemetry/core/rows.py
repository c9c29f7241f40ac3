"""Conversion of episodes, metrics, log lines, envs and evaluations to tables and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core.arrays import coded, joined, numpy
from runspine.services.telemetry.core.step_counter import PlacedBlock
from runspine.wire.v1.telemetry_pb2 import (
    Batch,
    EnvBatch,
    EnvMade,
    Episode,
    EpisodeBatch,
    EvaluationBatch,
    LogBatch,
    LogLine,
    MetricBatch,
    MetricBlock,
    Reset,
    Score,
)

STEPS, EPISODES, METRICS, LOGS, ENVS = "steps", "episodes", "metrics", "logs", "envs"
EVALUATIONS = "evaluations"
# Batches of a newer worker that this version does not know, kept unchanged.
OTHER = "other"
KINDS = (STEPS, EPISODES, METRICS, LOGS, ENVS, EVALUATIONS)

# Kinds of entries in a table of envs.
MADE, RESET, CONFIG = 1, 2, 3
# Variants of tables of envs.
RESETS, MADES = "resets", "made"


class Arrival(NamedTuple):
    """A batch and its position on the stream."""

    position: int
    batch: Batch


def batch_kind(batch: Batch) -> str:
    """The kind of table that the batch belongs to."""
    return batch.WhichOneof("kind") or OTHER


def placed_steps(arrivals: Iterable[Arrival]) -> list[PlacedBlock]:
    return [
        PlacedBlock(position, batch.attempt, order, block, steps_before(batch))
        for position, batch in arrivals
        for order, block in enumerate(batch.steps.blocks)
    ]


def steps_before(batch: Batch) -> int | None:
    return batch.steps.steps_before if batch.steps.HasField("steps_before") else None


def _origin(arrivals: Sequence[Arrival], counts: Sequence[int]) -> dict[str, pa.Array]:
    n, rows = len(arrivals), np.asarray(counts, np.int64)
    positions = np.fromiter((a.position for a in arrivals), np.uint64, n)
    attempts = np.fromiter((a.batch.attempt for a in arrivals), np.uint32, n)
    return {
        "attempt": pa.array(np.repeat(attempts, rows)),
        "position": pa.array(np.repeat(positions, rows)),
    }


def encode_episodes(arrivals: Sequence[Arrival]) -> pa.Table:
    found = [e for a in arrivals for e in a.batch.episodes.episodes]
    n = len(found)
    return pa.table(
        {
            **_origin(arrivals, [len(a.batch.episodes.episodes) for a in arrivals]),
            "episode_id": pa.array([e.episode_id for e in found], pa.string()),
            "slot": pa.array(np.fromiter((e.slot for e in found), np.uint32, n)),
            "agent_id": coded([e.agent_id for e in found]),
            "steps": pa.array([e.steps if e.HasField("steps") else None for e in found], pa.uint64()),
            "return": pa.array(np.fromiter((getattr(e, "return") for e in found), np.float64, n)),
            "ended_at": pa.array(np.fromiter((e.ended_at for e in found), np.int64, n)),
            "global_step": pa.array(np.fromiter((e.global_step for e in found), np.uint64, n)),
            "flags": pa.array(np.fromiter((e.flags for e in found), np.uint32, n)),
        }
    )


def decode_episodes(table: pa.Table) -> Iterator[Arrival]:
    rows = episodes_of(table)
    for position, attempt, start, end in batches_of(table):
        yield _arrival(position, attempt, episodes=EpisodeBatch(episodes=rows[start:end]))


def episodes_of(table: pa.Table) -> list[Episode]:
    names = ["episode_id", "slot", "agent_id", "steps", "return", "ended_at", "global_step", "flags"]
    columns = [table.column(name).to_pylist() for name in names]
    return [Episode(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def encode_metrics(arrivals: Sequence[Arrival]) -> pa.Table:
    """Rows by series and attempt, each in order of arrival, so that a curve is one contiguous range of
    rows."""
    blocks = [
        (a.position, a.batch.attempt, order, block)
        for a in arrivals
        for order, block in enumerate(a.batch.metrics.blocks)
    ]
    blocks.sort(key=lambda item: (item[3].name, item[1], item[0], item[2]))
    n = len(blocks)
    counts = np.fromiter((len(b[3].values) for b in blocks), np.int64, n)

    def spread(values: Iterable[int], dtype: Any) -> pa.Array:
        return pa.array(np.repeat(np.fromiter(values, dtype, n), counts))

    parts = [b[3] for b in blocks]
    steps, no_step = _aligned([b.steps for b in parts], counts, np.uint64)
    at, no_time = _aligned([b.at for b in parts], counts, np.int64)
    return pa.table(
        {
            "name": coded([b.name for b in parts], counts),
            "attempt": spread((b[1] for b in blocks), np.uint32),
            "position": spread((b[0] for b in blocks), np.uint64),
            "block": spread((b[2] for b in blocks), np.uint32),
            "step": pa.array(steps, mask=no_step if no_step.any() else None),
            "value": pa.array(_numbers([b.values for b in parts], np.float64)),
            "at": pa.array(at, mask=no_time if no_time.any() else None),
        }
    )


def _numbers(parts: Sequence[Sequence[Any]], dtype: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([np.empty(0, dtype), *(np.fromiter(part, dtype, len(part)) for part in parts)])


def _aligned(
    parts: Sequence[Sequence[int]], counts: np.ndarray[Any, Any], dtype: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """One value for each point, and a mask of the points without one."""
    values, missing = [np.empty(0, dtype)], [np.empty(0, bool)]
    for part, count in zip(parts, counts.tolist(), strict=True):
        given = np.fromiter(part, dtype, len(part))[:count]
        gap = count - len(given)
        values.append(np.concatenate([given, np.zeros(gap, dtype)]))
        missing.append(np.arange(count) >= len(given))
    return np.concatenate(values), np.concatenate(missing)


def metric_order(table: pa.Table) -> pa.Array:
    """Rows by series, attempt and arrival."""
    names = joined(table.column("name"))
    ranks = np.argsort(np.argsort(names.dictionary.to_pylist()))
    codes = ranks[names.indices.to_numpy(zero_copy_only=False)]
    columns = (numpy(table, "block"), numpy(table, "position"), numpy(table, "attempt"), codes)
    return pa.array(np.lexsort(columns))


def decode_metrics(table: pa.Table) -> Iterator[Arrival]:
    """Batches in order of arrival."""
    # Stable, so that rows of one block keep their order.
    order = np.lexsort((numpy(table, "block"), numpy(table, "position")))
    table = table.take(pa.array(order))
    names = joined(table.column("name"))
    codes, texts = names.indices.to_numpy(zero_copy_only=False), names.dictionary.to_pylist()
    orders, values = numpy(table, "block"), numpy(table, "value")
    steps, at = _OptionalColumn(table, "step"), _OptionalColumn(table, "at")
    for position, attempt, start, end in batches_of(table):
        cuts = [*(np.flatnonzero(np.diff(orders[start:end])) + start + 1).tolist(), end]
        blocks = [
            MetricBlock(
                name=texts[codes[first]],
                values=values[first:last],
                steps=steps.cut(first, last),
                at=at.cut(first, last),
            )
            for first, last in zip([start, *cuts[:-1]], cuts, strict=True)
        ]
        yield _arrival(position, attempt, metrics=MetricBatch(blocks=blocks))


class _OptionalColumn:
    """A column in which values may be missing."""

    def __init__(self, table: pa.Table, name: str) -> None:
        column = joined(table.column(name))
        self._valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        self._values = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)

    def cut(self, start: int, end: int) -> Any:
        values = self._values[start:end]
        return values if self._valid is None else values[self._valid[start:end]]


def encode_logs(arrivals: Sequence[Arrival]) -> pa.Table:
    lines = [line for a in arrivals for line in a.batch.logs.lines]
    n = len(lines)
    return pa.table(
        {
            **_origin(arrivals, [len(a.batch.logs.lines) for a in arrivals]),
            "number": pa.array(np.fromiter((line.number for line in lines), np.uint64, n)),
            "at": pa.array(np.fromiter((line.at for line in lines), np.int64, n)),
            "source": pa.array(np.fromiter((line.source for line in lines), np.int32, n)),
            "text": pa.array([line.text for line in lines], pa.string()),
        }
    )


def decode_logs(table: pa.Table) -> Iterator[Arrival]:
    names = ["number", "at", "source", "text"]
    columns = [table.column(name).to_pylist() for name in names]
    lines = [LogLine(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
    for position, attempt, start, end in batches_of(table):
        yield _arrival(position, attempt, logs=LogBatch(lines=lines[start:end]))


def encode_envs(arrivals: Sequence[Arrival]) -> dict[str, pa.Table]:
    """Resets, one for each episode, are a variant apart from the few other entries of a run."""
    tables = {RESETS: _env_table(arrivals, (RESET,)), MADES: _env_table(arrivals, (MADE, CONFIG))}
    return {variant: table for variant, table in tables.items() if table.num_rows}


def _env_table(arrivals: Sequence[Arrival], wanted: tuple[int, ...]) -> pa.Table:
    entries = [[e for e in _env_entries(a.batch.envs) if e[0] in wanted] for a in arrivals]
    flat = [entry for part in entries for entry in part]
    n = len(flat)
    return pa.table(
        {
            **_origin(arrivals, [len(part) for part in entries]),
            "entry": pa.array(np.fromiter((e[0] for e in flat), np.uint8, n)),
            "slot": pa.array(np.fromiter((e[1] for e in flat), np.uint32, n)),
            "episode_id": pa.array([e[2] for e in flat], pa.string()),
            "data": pa.array([e[3] for e in flat], pa.binary()),
        }
    )


def _env_entries(batch: EnvBatch) -> Iterator[tuple[int, int, str, bytes]]:
    for made in batch.made:
        yield MADE, made.slot, "", made.SerializeToString(deterministic=True)
    for reset in batch.resets:
        yield RESET, reset.slot, reset.episode_id, reset.SerializeToString(deterministic=True)
    for config in batch.configs:
        yield CONFIG, 0, "", config.encode()


def decode_envs(table: pa.Table) -> Iterator[Arrival]:
    entries, data = numpy(table, "entry"), joined(table.column("data"))
    for position, attempt, start, end in batches_of(table):
        batch = EnvBatch()
        for row in range(start, end):
            match entries[row]:
                case 1:
                    batch.made.append(EnvMade.FromString(data[row].as_py()))
                case 2:
                    batch.resets.append(Reset.FromString(data[row].as_py()))
                case 3:
                    batch.configs.append(data[row].as_py().decode())
        yield _arrival(position, attempt, envs=batch)


def encode_evaluations(arrivals: Sequence[Arrival]) -> pa.Table:
    """A row for each batch of episodes; `data` is the whole score, the other columns are for SQL."""
    scores = [score for a in arrivals for score in a.batch.evaluations.scores]
    numbers = ("mean", "minimum", "maximum", "median", "std", "seconds")
    return pa.table(
        {
            **_origin(arrivals, [len(a.batch.evaluations.scores) for a in arrivals]),
            "batch": pa.array([s.batch for s in scores], pa.uint32()),
            "digest": pa.array([s.digest for s in scores], pa.string()),
            "env_id": pa.array([s.env_id for s in scores], pa.string()),
            "algo": pa.array([s.algo for s in scores], pa.string()),
            "deterministic": pa.array([s.deterministic for s in scores], pa.bool_()),
            "episodes": pa.array([len(s.returns) for s in scores], pa.uint32()),
            **{name: pa.array([getattr(s, name) for s in scores], pa.float64()) for name in numbers},
            "at": pa.array([s.at for s in scores], pa.int64()),
            "data": pa.array([s.SerializeToString(deterministic=True) for s in scores], pa.binary()),
        }
    )


def decode_evaluations(table: pa.Table) -> Iterator[Arrival]:
    data = joined(table.column("data"))
    for position, attempt, start, end in batches_of(table):
        scores = [Score.FromString(data[row].as_py()) for row in range(start, end)]
        yield _arrival(position, attempt, evaluations=EvaluationBatch(scores=scores))


def encode_other(arrivals: Sequence[Arrival]) -> pa.Table:
    data = [a.batch.SerializeToString(deterministic=True) for a in arrivals]
    return pa.table({**_origin(arrivals, [1] * len(arrivals)), "data": pa.array(data, pa.binary())})


def decode_other(table: pa.Table) -> Iterator[Arrival]:
    for position, data in zip(table.column("position").to_pylist(), table.column("data"), strict=True):
        yield Arrival(position, Batch.FromString(data.as_py()))


def batches_of(table: pa.Table) -> Iterator[tuple[int, int, int, int]]:
    """Position, attempt and rows of each batch, in row order."""
    if not table.num_rows:
        return
    positions, attempts = numpy(table, "position"), numpy(table, "attempt")
    starts = [0, *(np.flatnonzero(np.diff(positions)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
        yield int(positions[start]), int(attempts[start]), start, end


def _arrival(position: int, attempt: int, **kind: Any) -> Arrival:
    return Arrival(position, Batch(attempt=attempt, **kind))
