"""Levels of a series: buckets of 256, 4,096, … points that keep every minimum and maximum. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core.arrays import Rows, coded, joined, numpy
from runspine.services.telemetry.core.rows import EPISODES, METRICS, STEPS
from runspine.services.telemetry.core.step_counter import row_counters, row_times
from runspine.wire.v1.manifest_pb2 import SeriesSummary

SIZES = (256, 4096, 65_536, 1_048_576)
RETURN, LENGTH, REWARD = "episode/return", "episode/length", "step/reward"
DERIVED = {RETURN: EPISODES, LENGTH: EPISODES, REWARD: STEPS}

Column = np.ndarray[Any, Any]


class Stretch(NamedTuple):
    """Points of one series and attempt in consecutive rows."""

    name: str
    attempt: int
    row: int
    steps: Column
    at: Column
    values: Column


@dataclass(slots=True)
class Buckets:
    """Columns of buckets. A single point is a bucket too."""

    row: Column
    count: Column
    nans: Column
    low: Column
    high: Column
    total: Column
    first_step: Column
    last_step: Column
    first_at: Column
    last_at: Column

    def __len__(self) -> int:
        return len(self.row)

    def pick(self, which: Column) -> Buckets:
        return Buckets(*(getattr(self, name)[which] for name in NAMES))

    @classmethod
    def join(cls, parts: Sequence[Buckets]) -> Buckets:
        if not parts:
            return cls(*(np.empty(0, TYPES[name]) for name in NAMES))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))


NAMES = tuple(f.name for f in fields(Buckets))
TYPES: dict[str, Any] = {
    "row": np.uint64, "count": np.uint64, "nans": np.uint64,
    "low": np.float64, "high": np.float64, "total": np.float64,
    "first_step": np.uint64, "last_step": np.uint64, "first_at": np.int64, "last_at": np.int64,
}  # fmt: skip


def single_points(stretch: Stretch) -> Buckets:
    """Each point as a bucket."""
    n = len(stretch.values)
    nan = np.isnan(stretch.values)
    return Buckets(
        row=stretch.row + np.arange(n, dtype=np.uint64),
        count=np.ones(n, np.uint64),
        nans=nan.astype(np.uint64),
        low=stretch.values,
        high=stretch.values,
        total=np.where(nan, 0.0, stretch.values),
        first_step=stretch.steps,
        last_step=stretch.steps,
        first_at=stretch.at,
        last_at=stretch.at,
    )


def join_adjacent(fine: Buckets, starts: Column) -> Buckets:
    """Join adjacent buckets, from each start to the next."""
    if not len(fine):
        return fine
    with np.errstate(invalid="ignore", over="ignore"):
        return Buckets(
            row=fine.row[starts],
            count=np.add.reduceat(fine.count, starts),
            nans=np.add.reduceat(fine.nans, starts),
            # fmin and fmax skip NaN.
            low=np.fmin.reduceat(fine.low, starts),
            high=np.fmax.reduceat(fine.high, starts),
            total=np.add.reduceat(fine.total, starts),
            first_step=np.minimum.reduceat(fine.first_step, starts),
            last_step=np.maximum.reduceat(fine.last_step, starts),
            first_at=np.minimum.reduceat(fine.first_at, starts),
            last_at=np.maximum.reduceat(fine.last_at, starts),
        )


def levels(stretch: Stretch) -> Iterator[tuple[int, Buckets]]:
    """Levels of a stretch from the finest on, until a level has a single bucket."""
    size = SIZES[0]
    # In pieces, so that a long stretch is not copied whole into columns of single points.
    parts = [_finest(_cut(stretch, start)) for start in range(0, len(stretch.values), PIECE_POINTS)]
    buckets = Buckets.join(parts)
    yield size, buckets
    for larger in SIZES[1:]:
        if len(buckets) == 1:
            return
        buckets = join_adjacent(buckets, np.arange(0, len(buckets), larger // size))
        size = larger
        yield size, buckets


PIECE_POINTS = 1 << 16


def _cut(stretch: Stretch, start: int) -> Stretch:
    piece = slice(start, start + PIECE_POINTS)
    return Stretch(
        stretch.name, stretch.attempt, stretch.row + start,
        stretch.steps[piece], stretch.at[piece], stretch.values[piece],
    )  # fmt: skip


def _finest(stretch: Stretch) -> Buckets:
    return join_adjacent(single_points(stretch), np.arange(0, len(stretch.values), SIZES[0]))


def summary(stretch: Stretch) -> SeriesSummary:
    """The whole stretch as one bucket."""
    whole = join_adjacent(next(levels(stretch))[1], np.array([0]))
    return SeriesSummary(
        name=stretch.name,
        attempt=stretch.attempt,
        row=stretch.row,
        points=int(whole.count[0]),
        nans=int(whole.nans[0]),
        low=float(whole.low[0]),
        high=float(whole.high[0]),
        total=float(whole.total[0]),
        last=float(stretch.values[-1]),
        first_step=int(whole.first_step[0]),
        last_step=int(whole.last_step[0]),
        first_at=int(whole.first_at[0]),
        last_at=int(whole.last_at[0]),
    )


def from_summaries(summaries: Sequence[SeriesSummary]) -> Buckets:
    named = {"count": "points"}
    columns = {
        name: np.array([getattr(s, named.get(name, name)) for s in summaries], TYPES[name]) for name in NAMES
    }
    return Buckets(**columns)


def levels_table(stretches: Iterable[Stretch]) -> tuple[pa.Table, list[int]] | None:
    """All levels, the finest first and the coarsest at the end, and how many rows each level has."""
    by_size: dict[int, list[tuple[Stretch, Buckets]]] = {size: [] for size in SIZES}
    for stretch in stretches:
        for size, buckets in levels(stretch):
            by_size[size].append((stretch, buckets))
    tables, groups = [], []
    for size, found in by_size.items():
        if found:
            tables.append(_level_table(size, found))
            groups.append(tables[-1].num_rows)
    return (pa.concat_tables(tables).unify_dictionaries(), groups) if tables else None


def _level_table(size: int, found: list[tuple[Stretch, Buckets]]) -> pa.Table:
    counts = np.array([len(buckets) for _, buckets in found])
    joined_buckets = Buckets.join([buckets for _, buckets in found])
    return pa.table(
        {
            "level": pa.array(np.full(int(counts.sum()), size, np.uint32)),
            "name": coded([stretch.name for stretch, _ in found], counts),
            "attempt": pa.array(np.repeat(np.array([s.attempt for s, _ in found], np.uint32), counts)),
            **{name: pa.array(getattr(joined_buckets, name)) for name in NAMES},
        }
    )


def buckets_of(table: pa.Table, name: str, attempt: int) -> Buckets:
    """One series and attempt of a level, in row order."""
    names = joined(table.column("name"))
    if not pa.types.is_dictionary(names.type):
        names = names.dictionary_encode()
    known = names.dictionary.to_pylist()
    if name not in known:
        return Buckets.join([])
    which = (names.indices.to_numpy(zero_copy_only=False) == known.index(name)) & (
        numpy(table, "attempt") == attempt
    )
    return Buckets(*(numpy(table, column)[which] for column in NAMES))


COLUMNS: dict[str, list[str]] = {
    STEPS: ["attempt", "step", "first_step", "count", "first_at", "span", "counter", "stride", "reward"],
    EPISODES: ["attempt", "global_step", "ended_at", "return", "steps"],
    METRICS: ["name", "attempt", "step", "at", "value"],
}


def stretches(kind: str, table: pa.Table, row: int = 0, only: str | None = None) -> Iterator[Stretch]:
    """Stretches of all series in a table, or of one; `row` is the number of the table's first row."""
    if not table.num_rows:
        return
    attempts = numpy(table, "attempt")
    match kind:
        case "metrics":
            names = joined(table.column("name"))
            if not pa.types.is_dictionary(names.type):
                names = names.dictionary_encode()
            codes, texts = names.indices.to_numpy(zero_copy_only=False), names.dictionary
            steps, at, values = _filled(table, "step"), _filled(table, "at"), numpy(table, "value")
            # There may be thousands of series: when one is wanted, the others are skipped.
            wanted = None if only is None else codes == texts.index(only).as_py()
            for start, end in _runs(codes, attempts, where=wanted):
                cut, name = slice(start, end), only or texts[codes[start]].as_py()
                yield Stretch(name, int(attempts[start]), row + start, steps[cut], at[cut], values[cut])
        case "episodes":
            steps, at = numpy(table, "global_step"), numpy(table, "ended_at")
            series = {RETURN: numpy(table, "return")}
            if table.column("steps").null_count < table.num_rows:
                # Where only some are known, the others are NaN.
                series[LENGTH] = numpy(table, "steps").astype(np.float64)
            yield from _derived(series, attempts, steps, at, row, only)
        case "steps" if "reward" in table.column_names:
            rewards = Rows(table.schema.field("reward"), table.column("reward")).numbers()
            yield from _derived({REWARD: rewards}, attempts, row_counters(table), row_times(table), row, only)


def _derived(
    series: dict[str, Column], attempts: Column, steps: Column, at: Column, row: int, only: str | None
) -> Iterator[Stretch]:
    for start, end in _runs(attempts):
        for name, values in series.items():
            if only not in (None, name):
                continue
            cut = slice(start, end)
            yield Stretch(name, int(attempts[start]), row + start, steps[cut], at[cut], values[cut])


def _filled(table: pa.Table, name: str) -> Column:
    column = table.column(name)
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy())


def _runs(*columns: Column, where: Column | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive rows that agree in all columns; only those that begin where `where` is true."""
    changed = np.zeros(len(columns[0]) - 1, bool)
    for column in columns:
        changed |= column[1:] != column[:-1]
    starts = np.append(0, np.flatnonzero(changed) + 1)
    ends = np.append(starts[1:], len(columns[0]))
    if where is not None:
        starts, ends = starts[where[starts]], ends[where[starts]]
    yield from zip(starts.tolist(), ends.tolist(), strict=True)
