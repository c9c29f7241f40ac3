"""Arrow tables of points, episodes and steps, and their conversion to data frames."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from runspine.api.filters import invalid
from runspine.errors import RunspineError
from runspine.sinks.parquet_files import step_table
from runspine.spec.plain import json_text
from runspine.wire.v1.telemetry_pb2 import EpisodeEntry, PointBlock, Series

Format = Literal["arrow", "pandas", "polars"]
TIME = pa.timestamp("us", tz="UTC")
POINT_FIELDS = [("step", pa.uint64()), ("value", pa.float64())]
EPISODE_SCHEMA = pa.schema(
    [
        ("index", pa.uint64()),
        ("attempt", pa.uint32()),
        ("episode_id", pa.string()),
        ("slot", pa.uint32()),
        ("agent_id", pa.string()),
        ("steps", pa.uint64()),
        ("return", pa.float64()),
        ("ended", TIME),
        ("global_step", pa.uint64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
    ]
)


@dataclass(slots=True)
class Points:
    """Points of one run by series, in chunks as they arrived; nothing is copied."""

    chunks: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    # How many chunks of each series are known to be complete.
    _kept: dict[str, int] = field(default_factory=dict)

    def add(self, block: PointBlock) -> None:
        columns = [_column(block.steps, pa.uint64()), _column(block.values, pa.float64())]
        names = ["step", "value"]
        if block.at:
            columns.append(_column(block.at, TIME))
            names.append("at")
        self.chunks.setdefault(block.name, []).append(pa.RecordBatch.from_arrays(columns, names))

    def keep(self) -> None:
        """All that was added is complete."""
        self._kept = {name: len(found) for name, found in self.chunks.items()}

    def drop_unkept(self) -> None:
        """Forget what comes again after an interruption."""
        self.chunks = {
            name: found[: self._kept[name]] for name, found in self.chunks.items() if self._kept.get(name)
        }


def _column(data: bytes, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(data) // 8, [None, pa.py_buffer(data)])


def sampled_chunks(series: Iterable[Series]) -> dict[str, list[pa.RecordBatch]]:
    """Curves as chunks with the lowest and highest value that each row stands for."""
    found = {}
    for each in series:
        columns = [np.asarray(column, np.float64) for column in (each.x, each.y, each.low, each.high)]
        arrays = [pa.array(columns[0].astype(np.uint64)), *map(pa.array, columns[1:])]
        found[each.name] = [pa.RecordBatch.from_arrays(arrays, ["step", "value", "low", "high"])]
    return found


def points_table(runs: Mapping[str, Mapping[str, Sequence[pa.RecordBatch]]], schema: pa.Schema) -> pa.Table:
    """One row for each point, with the run and the metric as dictionaries."""
    names = sorted({name for found in runs.values() for name in found})
    labels = {"run": pa.array(list(runs), pa.string()), "metric": pa.array(names, pa.string())}
    longest = max((len(c) for found in runs.values() for chunks in found.values() for c in chunks), default=0)
    batches = []
    for run, found in enumerate(runs.values()):
        # The same indices serve all chunks.
        run_index = pa.array(np.full(longest, run, np.int32))
        for name, chunks in found.items():
            metric_index = pa.array(np.full(longest, names.index(name), np.int32))
            batches += [
                pa.RecordBatch.from_arrays(
                    [
                        pa.DictionaryArray.from_arrays(run_index.slice(0, len(chunk)), labels["run"]),
                        pa.DictionaryArray.from_arrays(metric_index.slice(0, len(chunk)), labels["metric"]),
                        *chunk.columns,
                    ],
                    schema=schema,
                )
                for chunk in chunks
            ]
    return pa.Table.from_batches(batches, schema)


def points_schema(*, times: bool, sampled: bool) -> pa.Schema:
    more = [("low", pa.float64()), ("high", pa.float64())] if sampled else [("at", TIME)] if times else []
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([("run", text), ("metric", text), *POINT_FIELDS, *more])


def wide_table(table: pa.Table, metrics: Sequence[str]) -> pa.Table:
    """One row for each run and step, one column for each metric; of several values at a step the last."""
    import pyarrow.compute as pc

    keys = ["run", "step"]
    plain = table.set_column(0, "run", table.column("run").cast(pa.string()))
    order = plain.select(keys).append_column("row", pa.array(np.arange(len(plain), dtype=np.int64)))
    found = order.group_by(keys).aggregate([("row", "min")]).sort_by("row_min").select(keys)
    for metric in metrics:
        own = plain.filter(pc.equal(plain.column("metric").cast(pa.string()), metric))
        # With threads, the last of a group is not defined.
        last = own.select([*keys, "value"]).group_by(keys, use_threads=False).aggregate([("value", "last")])
        found = found.join(last.rename_columns([*keys, metric]), keys)
    return found.sort_by([("run", "ascending"), ("step", "ascending")])


def episodes_table(entries: Iterable[EpisodeEntry]) -> pa.Table:
    rows = [
        {
            "index": entry.index,
            "attempt": entry.attempt,
            "episode_id": entry.episode.episode_id,
            "slot": entry.episode.slot,
            "agent_id": entry.episode.agent_id,
            "steps": entry.episode.steps if entry.episode.HasField("steps") else None,
            "return": getattr(entry.episode, "return"),
            "ended": entry.episode.ended_at,
            "global_step": entry.episode.global_step,
            "terminated": bool(entry.episode.flags & 1),
            "truncated": bool(entry.episode.flags & 2),
        }
        for entry in entries
    ]
    return pa.Table.from_pylist(rows, schema=EPISODE_SCHEMA)


def steps_table(attempt: int, blocks: Iterable[Any]) -> pa.Table:
    """The steps of an episode."""
    tables = [step_table(attempt, block) for block in blocks]
    if not tables:
        return pa.table({"step": pa.array([], pa.uint64()), "reward": pa.array([], pa.float64())})
    for name in ("action", "observation"):
        kinds = {table.schema.field(name).type for table in tables}
        if len(kinds) > 1:
            tables = [_as_text(table, name) for table in tables]
    return pa.concat_tables(tables)


def _as_text(table: pa.Table, name: str) -> pa.Table:
    """The table with a column as JSON: agents of one episode can have actions of different shapes."""
    column = table.column(name)
    if not pa.types.is_string(column.type):
        column = pa.array([None if value is None else json_text(value) for value in column.to_pylist()])
    return table.set_column(table.schema.get_field_index(name), name, column)


def result_table(data: bytes) -> pa.Table:
    """The rows of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as found:
        return found.read_all()


def as_format(table: pa.Table, format: Format) -> Any:
    """The table as it is, or as a data frame of pandas or polars."""
    match format:
        case "arrow":
            return table
        case "pandas":
            _require("pandas")
            return table.to_pandas()
        case "polars":
            return _require("polars").from_arrow(table)
    raise invalid("format", f"{format!r} is not one of: arrow, pandas, polars")


def _require(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RunspineError(
            f'{name} is not installed here: `pip install {name}`, or use format="arrow"'
        ) from error
