"""Segments of a run: their Parquet objects and their entries in a manifest. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core import levels, parquet, rows, steps
from runspine.services.telemetry.core.arrays import numpy
from runspine.services.telemetry.core.rows import Arrival
from runspine.wire.v1.manifest_pb2 import AttemptRows, Segment

PREFIX = "telemetry/"
LOG_GROUP_BYTES = 4 << 20

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


# What encoding raises for a batch whose columns do not fit each other or have no such type.
MALFORMED_ERRORS = (
    ArithmeticError,
    AssertionError,
    LookupError,
    MemoryError,
    NotImplementedError,
    TypeError,
    ValueError,
    pa.ArrowException,
)


class NewSegment(NamedTuple):
    """A segment with its objects, before they are stored."""

    segment: Segment
    objects: dict[str, bytes]


def tables_of(kind: str, arrivals: Sequence[Arrival], before: Mapping[int, int]) -> dict[str, pa.Table]:
    """Tables of one kind by variant. `before`: rows of that kind that each attempt already has."""
    if kind == rows.STEPS:
        return steps.encode(rows.placed_steps(arrivals), before)
    if kind == rows.ENVS:
        return rows.encode_envs(arrivals)
    table = _ENCODERS[kind](arrivals)
    return {"": table} if table.num_rows else {}


def well_formed(kind: str, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """The batches that can be encoded, each tried alone: for use after an encoding has failed."""
    return [arrival for arrival in arrivals if _is_well_formed(kind, arrival)]


def _is_well_formed(kind: str, arrival: Arrival) -> bool:
    try:
        tables_of(kind, [arrival], {})
    except MALFORMED_ERRORS:
        return False
    return True


def empty_table(kind: str) -> pa.Table:
    """A table of a kind without rows. Not for steps and envs, whose columns differ."""
    return _ENCODERS[kind]([])


def arrivals_of(kind: str, table: pa.Table) -> Iterator[Arrival]:
    """The batches of a table. Not for steps, whose batches span several variants."""
    return _DECODERS[kind](table)


def make_segments(
    run_id: str, kind: str, arrivals: Sequence[Arrival], before: Mapping[int, int]
) -> list[NewSegment]:
    """Segments of these batches, one for each variant."""
    tables = tables_of(kind, arrivals, before)
    return [make_segment(run_id, kind, variant, table) for variant, table in tables.items()]


def join_segments(segments: Sequence[Segment], tables: Sequence[pa.Table]) -> NewSegment:
    """One segment with the rows of several, all of one run, kind and variant."""
    first = segments[0]
    table = pa.concat_tables(tables).unify_dictionaries()
    if first.kind == rows.METRICS:
        table = table.take(rows.metric_order(table))
    return make_segment(first.run_id, first.kind, first.variant, table)


def make_segment(run_id: str, kind: str, variant: str, table: pa.Table) -> NewSegment:
    data = parquet.to_bytes(table, max_rows=_group_rows(kind, table))
    found = list(levels.stretches(kind, table))
    positions = numpy(table, "position")
    first, last = int(positions.min()), int(positions.max())
    digest = hashlib.sha256(data).digest()
    # The digest in the key keeps two processes that write the same range from overwriting each other.
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
        raw_size=table.nbytes,
    )
    objects = {segment.key: data}
    made = levels.levels_table(found)
    if made is not None:
        small = parquet.to_bytes(*made)
        segment.levels_key, segment.levels_size = f"{stem}.levels.parquet", len(small)
        segment.levels_sha256 = hashlib.sha256(small).digest()
        objects[segment.levels_key] = small
    return NewSegment(segment, objects)


def _group_rows(kind: str, table: pa.Table) -> int:
    """Rows of a row group: those of log lines are read whole, whatever the length of a line."""
    if kind != rows.LOGS or not table.nbytes:
        return parquet.MAX_GROUP_ROWS
    fitting = int(table.num_rows * LOG_GROUP_BYTES // table.nbytes)
    return max(1, min(parquet.MAX_GROUP_ROWS, fitting))


def _attempt_rows(kind: str, table: pa.Table) -> list[AttemptRows]:
    attempts = numpy(table, "attempt")
    # A raw row is a whole block of steps.
    raw = kind == rows.STEPS and "data" in table.column_names
    weights = numpy(table, "count") if raw else np.ones(len(attempts), np.uint32)
    return [
        AttemptRows(attempt=int(attempt), rows=int(weights[attempts == attempt].sum()))
        for attempt in np.unique(attempts)
    ]
