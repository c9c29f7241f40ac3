"""The process that answers SQL, once it is locked: a run's own tables and nothing else."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runspine.services.telemetry import sql_child

FORBIDDEN = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "FROM sniff_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM parquet_metadata('{folder}/other.parquet')",
    "SELECT * FROM read_parquet('{folder}/other.parquet')",
    "SELECT * FROM read_parquet('{folder}/mine/../other.parquet')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_text('/proc/self/mem')",
    "SELECT * FROM read_parquet('https://127.0.0.1:9/a.parquet')",
    "SELECT * FROM read_duckdb('{folder}/out.db')",
    "ATTACH '{folder}/out.db' AS other",
    "COPY metrics TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "LOAD httpfs",
    "INSTALL spatial",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "CALL pragma_version()",
    "CREATE VIEW other AS SELECT 1",
    "DELETE FROM metrics",
    "SELECT 1; DROP VIEW metrics",
    "SELECT * FROM query('DROP VIEW metrics')",
    "SELECT getenv('HOME')",
    "SELECT * FROM duckdb_secrets()",
    "EXPLAIN ANALYZE SELECT 1",
    "",
    "not sql at all",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    for name, value in (("mine/a", 1.0), ("other", 2.0)):
        table = pa.table({"attempt": [1], "step": pa.array([1], pa.uint64()), "value": [value]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    return tmp_path


def of_one_run(folder: Path) -> dict[str, Any]:
    return {"files": {"metrics": [[str(folder / "mine/a.parquet")]]}, "cutoffs": {}}


def of_many_runs(folder: Path) -> dict[str, Any]:
    """Two runs that share a file; the second one's attempt is superseded from step 1 on."""
    mine = folder / "mine"
    file, runs = str(mine / "a.parquet"), ["r1", "r2"]
    cutoffs = pa.table({"run_id": ["r2"], "attempt": pa.array([1], pa.uint32()), "cutoff": [0]})
    pq.write_table(pa.table({"file": [file, file], "run_id": runs}), mine / "sources.parquet")
    pq.write_table(cutoffs, mine / "cutoffs.parquet")
    pq.write_table(pa.table({"run_id": runs}), mine / "runs.parquet")
    joined = {
        "files": [file],
        "sources": str(mine / "sources.parquet"),
        "cutoffs": str(mine / "cutoffs.parquet"),
    }
    return {"tables": {"runs": str(mine / "runs.parquet")}, "joined": {"metrics": joined}}


FORMS = [of_one_run, of_many_runs]


def ask(
    folder: Path,
    query: str,
    monkeypatch: pytest.MonkeyPatch,
    form: Callable[[Path], dict[str, Any]] = of_one_run,
) -> list[dict[str, Any]]:
    out = io.BytesIO()
    monkeypatch.setattr(sql_child.sys, "stdout", SimpleNamespace(buffer=out))  # type: ignore[attr-defined]
    sql_child.answer({**form(folder), "query": query, "max_rows": 10, "memory_mib": 64})
    return list(pa.ipc.open_stream(out.getvalue()).read_all().to_pylist())


def test_a_select_over_the_runs_tables_is_answered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(folder, "SELECT value FROM metrics", monkeypatch) == [{"value": 1.0}]
    assert len(ask(folder, "SELECT * FROM range(1000)", monkeypatch)) == 10


def test_runs_that_share_a_file_have_its_rows_once_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(folder, "SELECT * FROM metrics", monkeypatch, of_many_runs) == [
        {"run_id": "r1", "attempt": 1, "step": 1, "value": 1.0}
    ]
    query = "SELECT run_id, count(value) n FROM runs LEFT JOIN metrics USING (run_id) GROUP BY 1 ORDER BY 1"
    found = ask(folder, query, monkeypatch, of_many_runs)
    assert found == [{"run_id": "r1", "n": 1}, {"run_id": "r2", "n": 0}]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("query", FORBIDDEN)
def test_anything_else_is_refused_and_leaves_nothing(
    folder: Path, query: str, form: Callable[[Path], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    form(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(duckdb.Error):
        ask(folder, query.format(secret=folder / "secret.csv", folder=folder), monkeypatch, form)
    assert sorted(folder.rglob("*")) == before
