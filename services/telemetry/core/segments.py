"""Batches of one run as segments: the Parquet objects, and what a manifest says of them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runspine.wire.v1.manifest_pb2 import AttemptRows, Segment
from services.telemetry.core import levels, parquet, rows, steps
from services.telemetry.core.arrays import numpy
from services.telemetry.core.rows import Arrival

PREFIX = "telemetry/"

_ENCODERS: dict[str, Callable[[Sequence[Arrival]], pa.Table]] = {
    rows.EPISODES: rows.encode_episodes,
    rows.METRICS: rows.encode_metrics,
    rows.LOGS: rows.encode_logs,
    rows.EVALUATIONS: rows.encode_evaluations,
    rows.OTHER: rows.encode_other,
}
_DECODERS: dict[str, Callable[[pa.Table], Iterator[Arrival]]] = {
    rows.EPISODES: rows.decode_episodes,
    rows.METRICS: rows.decode_metrics,
    rows.LOGS: rows.decode_logs,
    rows.ENVS: rows.decode_envs,
    rows.EVALUATIONS: rows.decode_evaluations,
    rows.OTHER: rows.decode_other,
}


class Made(NamedTuple):
    """A segment and its objects, not stored yet."""

    segment: Segment
    objects: dict[str, bytes]


def tables_of(kind: str, arrivals: Sequence[Arrival], before: Mapping[int, int]) -> dict[str, pa.Table]:
    """Rows of one kind by variant. `before`: rows of that kind that each attempt had already."""
    if kind == rows.STEPS:
        return steps.encode(rows.placed_steps(arrivals), before)
    if kind == rows.ENVS:
        return rows.encode_envs(arrivals)
    table = _ENCODERS[kind](arrivals)
    return {"": table} if table.num_rows else {}


def arrivals_of(kind: str, table: pa.Table) -> Iterator[Arrival]:
    """The batches again, as far as they were of this kind; not for steps, whose variants mix."""
    return _DECODERS[kind](table)


def make(run_id: str, kind: str, arrivals: Sequence[Arrival], before: Mapping[int, int]) -> list[Made]:
    """Segments of what has arrived, one for each variant."""
    tables = tables_of(kind, arrivals, before)
    return [make_one(run_id, kind, variant, table) for variant, table in tables.items()]


def join(segments: Sequence[Segment], tables: Sequence[pa.Table]) -> Made:
    """One segment with the rows of several, all of one run, kind and variant."""
    first = segments[0]
    table = pa.concat_tables(tables).unify_dictionaries()
    if first.kind == rows.METRICS:
        table = table.take(rows.metric_order(table))
    return make_one(first.run_id, first.kind, first.variant, table)


def make_one(run_id: str, kind: str, variant: str, table: pa.Table) -> Made:
    data = parquet.to_bytes(table)
    found = list(levels.stretches(kind, table))
    positions = numpy(table, "position")
    first, last = int(positions.min()), int(positions.max())
    digest = hashlib.sha256(data).digest()
    # With its digest in the name, two processes that write the same range never overwrite each other.
    stem = f"{PREFIX}{run_id}/{kind}/{first:020d}-{last:020d}.{digest.hex()[:12]}"
    segment = Segment(
        run_id=run_id,
        kind=kind,
        variant=variant,
        key=f"{stem}.parquet",
        rows=table.num_rows,
        size=len(data),
        sha256=digest,
        first=first,
        last=last,
        attempts=_attempt_rows(kind, table),
        series=[levels.summary(stretch) for stretch in found],
    )
    objects = {segment.key: data}
    made = levels.levels_table(found)
    if made is not None:
        small = parquet.to_bytes(*made)
        segment.levels_key, segment.levels_size = f"{stem}.levels.parquet", len(small)
        segment.levels_sha256 = hashlib.sha256(small).digest()
        objects[segment.levels_key] = small
    return Made(segment, objects)


def _attempt_rows(kind: str, table: pa.Table) -> list[AttemptRows]:
    attempts = numpy(table, "attempt")
    # A raw row stands for a whole block of steps.
    raw = kind == rows.STEPS and "data" in table.column_names
    weights = numpy(table, "count") if raw else np.ones(len(attempts), np.uint32)
    return [
        AttemptRows(attempt=int(attempt), rows=int(weights[attempts == attempt].sum()))
        for attempt in np.unique(attempts)
    ]
