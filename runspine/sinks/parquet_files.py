"""Parquet sink: metrics.parquet, episodes.parquet and optional steps.parquet.

A Parquet file has one schema. Steps whose actions or observations have another type or shape, as those of
another agent, go to a file of their own: steps.2.parquet and so on, in the order in which they first appear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runspine.errors import RefusedError
from runspine.sinks.columns import (
    Values,
    actions_of,
    observations_of,
    points_of,
    rewards_of,
    rows_of,
    times_of,
)
from runspine.sinks.draft import Draft
from runspine.sinks.ledger import run_folder
from runspine.sinks.port import EPISODES, METRICS, STEPS, ExportedRun, Mark
from runspine.spec.plain import json_text

ROW_GROUP_ROWS = 65_536
# Files of steps: a run whose shapes change without end is not one.
MAX_FORMS = 64
TIME = pa.timestamp("us", tz="UTC")
SCHEMAS = {
    METRICS: pa.schema(
        {
            "attempt": pa.uint32(),
            "name": pa.string(),
            "step": pa.uint64(),
            "time": TIME,
            "value": pa.float64(),
        }
    ),
    EPISODES: pa.schema(
        {
            "attempt": pa.uint32(),
            "episode_id": pa.string(),
            "slot": pa.uint32(),
            "agent_id": pa.string(),
            "steps": pa.uint64(),
            "return": pa.float64(),
            "global_step": pa.uint64(),
            "ended": TIME,
            "terminated": pa.bool_(),
            "truncated": pa.bool_(),
        }
    ),
}


class ParquetFiles:
    """Writes Parquet files."""

    def __init__(self, out: Path, exported: ExportedRun, *, with_steps: bool = False) -> None:
        self.kinds: tuple[str, ...] = (METRICS, EPISODES, STEPS) if with_steps else (METRICS, EPISODES)
        self._exported = exported
        self._place = run_folder(out, exported)
        self._draft = Draft(out, exported, "parquet", {"steps": with_steps})
        self._parameters: Mapping[str, Any] = {}

    def open(self) -> Mark:
        mark = self._draft.open()
        self._begin()
        return mark

    def describe(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters

    def feed(self, kind: str, batch: Any) -> None:
        for table in _TABLES[kind](batch):
            name = self._steps_name(table.schema) if kind == STEPS else kind
            self._held.setdefault(name, []).append(table)
            self._count[name] = self._count.get(name, 0) + table.num_rows
            if self._count[name] >= ROW_GROUP_ROWS:
                self._flush(name)

    def commit(self, mark: Mark) -> None:
        self._draft.mark = mark

    def supersede(self, step: int, mark: Mark) -> Mark:
        self._end()
        self._draft.restart()
        self._begin()
        return Mark()

    def close(self) -> str:
        if self._draft.is_open:
            for name in list(self._held):
                self._flush(name)
            for kind in set(self.kinds) & SCHEMAS.keys() - self._writers.keys():
                self._write(kind, SCHEMAS[kind].empty_table())
            self._end()
            places = [self._place / f"{name}.parquet" for name in self._writers]
            for old in set(self._draft.previous_outputs()) - set(places):
                old.unlink(missing_ok=True)
            for place in places:
                self._draft.publish(self._draft.draft_folder / place.name, place)
            self._draft.record_done(places)
        self._draft.close()
        return str(self._place)

    def abandon(self) -> None:
        self._end()
        self._draft.close()

    def _begin(self) -> None:
        self._writers: dict[str, pq.ParquetWriter] = {}
        # By the name of their file.
        self._held: dict[str, list[pa.Table]] = {}
        self._count: dict[str, int] = {}
        # Schemas of steps, in the order of their files.
        self._forms: list[pa.Schema] = []

    def _steps_name(self, schema: pa.Schema) -> str:
        if schema not in self._forms:
            if len(self._forms) >= MAX_FORMS:
                self._refuse_more_forms()
            self._forms.append(schema)
        number = self._forms.index(schema) + 1
        return STEPS if number == 1 else f"{STEPS}.{number}"

    def _flush(self, name: str) -> None:
        if self._held[name]:
            self._write(name, pa.concat_tables(self._held[name]))
        self._held[name], self._count[name] = [], 0

    def _write(self, name: str, table: pa.Table) -> None:
        if name not in self._writers:
            about = {b"runspine": json_text(self._about()).encode()}
            schema = table.schema.with_metadata(about)
            self._writers[name] = pq.ParquetWriter(self._draft.draft_folder / f"{name}.parquet", schema)
        self._writers[name].write_table(table)

    def _about(self) -> dict[str, Any]:
        return {"run_id": self._exported.run_id, "name": self._exported.name, "parameters": self._parameters}

    def _refuse_more_forms(self) -> None:
        raise RefusedError(
            f"run {self._exported.name}: its actions or observations have more than {MAX_FORMS} shapes or "
            "types, and a Parquet file has one schema; export with --to csv, or without --steps"
        )

    def _end(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _metrics(batch: Any) -> Iterator[pa.Table]:
    rows = [(block.name, *point) for block in batch.blocks for point in points_of(block)]
    names, values, steps, at = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [[batch.attempt] * len(rows), names, steps, at, values]
    yield pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMAS[METRICS], strict=True)],
        schema=SCHEMAS[METRICS],
    )


def _episodes(batch: Any) -> Iterator[pa.Table]:
    rows = [
        {
            "attempt": batch.attempt,
            "episode_id": e.episode_id,
            "slot": e.slot,
            "agent_id": e.agent_id,
            "steps": e.steps if e.HasField("steps") else None,
            "return": getattr(e, "return"),
            "global_step": e.global_step,
            "ended": e.ended_at,
            "terminated": bool(e.flags & 1),
            "truncated": bool(e.flags & 2),
        }
        for e in batch.episodes
    ]
    yield pa.Table.from_pylist(rows, schema=SCHEMAS[EPISODES])


def _steps(batch: Any) -> Iterator[pa.Table]:
    """A table for each form of the blocks."""
    forms: dict[pa.Schema, list[pa.Table]] = {}
    for block in batch.blocks:
        table = step_table(batch.attempt, block)
        forms.setdefault(table.schema, []).append(table)
    return map(pa.concat_tables, forms.values())


def step_table(attempt: int, block: Any) -> pa.Table:
    """Steps of one block, a row each."""
    n = block.count
    flags = np.frombuffer(block.flags or bytes(n), np.uint8)
    columns = {
        "attempt": pa.array(np.full(n, attempt, np.uint32)),
        "episode_id": pa.array([block.episode_id] * n),
        "slot": pa.array(np.full(n, block.slot, np.uint32)),
        "agent_id": pa.array([block.agent_id] * n),
        "step": pa.array(np.arange(block.first_step, block.first_step + n, dtype=np.uint64)),
        "time": pa.array(times_of(block), TIME),
        "action": _column(rows_of(block.action, n), actions_of(block)),
        "reward": pa.array(rewards_of(block), pa.float64()),
        "terminated": pa.array((flags & 1).astype(bool)),
        "truncated": pa.array((flags & 2).astype(bool)),
        "observation": _column(rows_of(block.observation, n), observations_of(block)),
    }
    return pa.table(columns)


def _column(rows: Values | None, plain: list[Any]) -> pa.Array:
    """Column of the type of the rows, flattened to lists; JSON text for values without a fixed form."""
    if rows is None or rows.dtype.kind == "c":
        return pa.array([None if value is None else json_text(value) for value in plain], pa.string())
    if rows.ndim == 1:
        return pa.array(rows)
    flat = pa.array(rows.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(rows.shape[1:])))


_TABLES = {METRICS: _metrics, EPISODES: _episodes, STEPS: _steps}
