"""Parquet sink: metrics.parquet, episodes.parquet and optional steps.parquet."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._held[kind].append(_TABLES[kind](batch))
        self._count[kind] += self._held[kind][-1].num_rows
        if self._count[kind] >= ROW_GROUP_ROWS:
            self._flush(kind)

    def commit(self, mark: Mark) -> None:
        self._draft.mark = mark

    def supersede(self, step: int, mark: Mark) -> Mark:
        self._end()
        self._draft.restart()
        self._begin()
        return Mark()

    def close(self) -> str:
        if self._draft.is_open:
            for kind in self.kinds:
                self._flush(kind)
                if kind not in self._writers and kind in SCHEMAS:
                    self._write(kind, SCHEMAS[kind].empty_table())
            self._end()
            places = [self._place / f"{kind}.parquet" for kind in self._writers]
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
        self._held: dict[str, list[pa.Table]] = {kind: [] for kind in self.kinds}
        self._count = dict.fromkeys(self.kinds, 0)

    def _flush(self, kind: str) -> None:
        if self._held[kind]:
            tables = self._held[kind]
            if kind == STEPS and len({table.schema for table in tables}) > 1:
                self._other_form()
            self._write(kind, pa.concat_tables(tables))
        self._held[kind], self._count[kind] = [], 0

    def _write(self, kind: str, table: pa.Table) -> None:
        if kind not in self._writers:
            about = {b"runspine": json_text(self._about()).encode()}
            schema = table.schema.with_metadata(about)
            self._writers[kind] = pq.ParquetWriter(self._draft.draft_folder / f"{kind}.parquet", schema)
        writer = self._writers[kind]
        if not table.schema.equals(writer.schema):
            self._other_form()
        writer.write_table(table)

    def _about(self) -> dict[str, Any]:
        return {"run_id": self._exported.run_id, "name": self._exported.name, "parameters": self._parameters}

    def _other_form(self) -> None:
        raise RefusedError(
            f"run {self._exported.name}: its actions or observations change shape or type, "
            "and a Parquet file has one schema; export with --to csv, or without --steps"
        )

    def _end(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _metrics(batch: Any) -> pa.Table:
    rows = [(block.name, *point) for block in batch.blocks for point in points_of(block)]
    names, values, steps, at = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [[batch.attempt] * len(rows), names, steps, at, values]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMAS[METRICS], strict=True)],
        schema=SCHEMAS[METRICS],
    )


def _episodes(batch: Any) -> pa.Table:
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
    return pa.Table.from_pylist(rows, schema=SCHEMAS[EPISODES])


def _steps(batch: Any) -> pa.Table:
    return pa.concat_tables([_block(batch.attempt, block) for block in batch.blocks])


def _block(attempt: int, block: Any) -> pa.Table:
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
