"""Read-only SQL over many runs: their tables joined into one, with a column that names the run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from runspine.domain.run import RunRefusedError
from runspine.services.telemetry.core.rows import EPISODES, EVALUATIONS, LOGS, METRICS
from runspine.services.telemetry.core.run_tables import ARTIFACTS, SCHEMAS, run_table
from runspine.services.telemetry.core.segments import empty_table
from runspine.services.telemetry.edges.run_lookup import RunLookup
from runspine.services.telemetry.edges.run_views import RunView, RunViews
from runspine.services.telemetry.edges.sql import SqlRunner
from runspine.wire.v1.run_pb2 import AttemptHistory, Run

T = TypeVar("T")
# Steps have columns of their own in each run.
KINDS = (METRICS, EPISODES, LOGS, EVALUATIONS)
MAX_CONCURRENT = 32


class CrossRunSql:
    """Answers SQL over several runs with the child processes and limits of SqlRunner."""

    def __init__(self, sql: SqlRunner, views: RunViews, runs: RunLookup, seconds: float) -> None:
        self._sql = sql
        self._views = views
        self._runs = runs
        self._seconds = seconds

    async def query(self, run_ids: Sequence[str], query: str, max_rows: int) -> AsyncGenerator[bytes, None]:
        """The result as chunks of an Arrow stream."""
        unique = list(dict.fromkeys(run_ids))
        kinds = [kind for kind in KINDS if _mentions(query, kind)]
        try:
            async with asyncio.timeout(self._seconds):
                tables = await self._tables(unique, query)
                views = await _all(unique, lambda run_id: self._views.view(run_id, *kinds)) if kinds else []
        except TimeoutError as error:
            raise RunRefusedError(
                f"the tables of {len(unique):,} runs took longer than {self._seconds:g} s: query fewer runs"
            ) from error
        segments = [segment for view in views for kind in kinds for segment in view.archived[kind]]

        def build(scratch: Path, local: Mapping[str, str]) -> dict[str, Any]:
            for name, table in tables.items():
                pq.write_table(table, scratch / f"{name}.parquet")
            plain = {name: str(scratch / f"{name}.parquet") for name in tables}
            return {"tables": plain, "joined": {kind: _joined(kind, views, scratch, local) for kind in kinds}}

        async with aclosing(self._sql.query_files(segments, build, query, max_rows)) as pieces:
            async for piece in pieces:
                yield piece

    async def _tables(self, run_ids: Sequence[str], query: str) -> dict[str, pa.Table]:
        """The tables about runs that the query mentions."""
        names = [name for name in SCHEMAS if _mentions(query, name)]
        runs: list[Run] = []
        if names:
            runs = [run for run, _ in await _all(run_ids, self._runs.get)]
        attempts: dict[str, AttemptHistory] = {}
        if ARTIFACTS in names:
            attempts = dict(zip(run_ids, await _all(run_ids, self._runs.attempts), strict=True))
        return {name: await asyncio.to_thread(run_table, name, runs, attempts) for name in names}


def _joined(
    kind: str, views: Sequence[RunView], scratch: Path, local: Mapping[str, str]
) -> dict[str, str | list[str]]:
    """Files of a kind: which file belongs to which run, and the cutoffs of attempts."""
    files: list[tuple[str, str]] = []
    for number, view in enumerate(views):
        files += [(local[segment.key], view.run_id) for segment in view.archived[kind]]
        for part, table in enumerate(view.tables[kind]):
            path = scratch / f"{kind}-{number}-{part}.parquet"
            pq.write_table(table, path)
            files.append((str(path), view.run_id))
    # Without rows the table has its columns all the same.
    empty = scratch / f"{kind}-empty.parquet"
    pq.write_table(empty_table(kind), empty)
    files.append((str(empty), ""))
    cutoffs = [(view.run_id, attempt, cut) for view in views for attempt, cut in view.cutoffs.items()]
    sources, limits = scratch / f"{kind}-sources.parquet", scratch / f"{kind}-cutoffs.parquet"
    text = pa.string()
    pq.write_table(_columns(files, {"file": text, "run_id": text}), sources)
    pq.write_table(_columns(cutoffs, {"run_id": text, "attempt": pa.uint32(), "cutoff": pa.int64()}), limits)
    return {
        # Two runs with the same rows share a file.
        "files": list(dict.fromkeys(path for path, _ in files)),
        "sources": str(sources),
        "cutoffs": str(limits),
    }


def _columns(rows: Sequence[tuple[Any, ...]], kinds: Mapping[str, pa.DataType]) -> pa.Table:
    return pa.table(
        {name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())}
    )


def _mentions(query: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", query, re.IGNORECASE) is not None


async def _all(run_ids: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Answers about all runs in their order, some at a time; the first error ends it."""
    room = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(run_id: str) -> T:
        async with room:
            return await ask(run_id)

    tasks = [asyncio.ensure_future(one(run_id)) for run_id in run_ids]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
