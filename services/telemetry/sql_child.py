"""Child process for one SQL query over local Parquet files, without access to anything else. Writes Arrow to
stdout."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

BATCH_ROWS = 65_536
BAD_QUERY = 3

# Columns that exist only to decode blocks exactly are replaced by those that queries need.
STEPS = """* EXCLUDE (first_step, count, first_at, span, counter, said, stride),
    counter + (step - first_step) * stride AS global_step,
    first_at + CAST(span * (step - first_step) / greatest(count - 1, 1) AS BIGINT) AS at"""
COUNTERS = {
    "steps": "counter + (step - first_step) * stride < {}",
    "episodes": "global_step <= {}",
    "metrics": "step <= {}",
    "evaluations": "{} >= 0",
}


def main() -> int:
    task = json.loads(Path(sys.argv[1]).read_text())
    limit = (task["memory_mib"] + 2048) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer(task)
    except duckdb.Error as error:
        sys.stderr.write(f"{error}\n")
        return BAD_QUERY
    return 0


def answer(task: dict[str, Any]) -> None:
    database = duckdb.connect(":memory:")
    for kind, variants in task.get("files", {}).items():
        make_view(database, kind, variants, task["cutoffs"])
    for name, path in task.get("tables", {}).items():
        database.execute(f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet({[path]!r})')
    for kind, joined in task.get("joined", {}).items():
        make_joined_view(database, kind, joined)
    lock_down(database, task)
    statements = database.extract_statements(task["query"])
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise duckdb.InvalidInputException("one SELECT is accepted, nothing else")
    found: Any = database.sql(task["query"]).to_arrow_reader(BATCH_ROWS)
    left = task["max_rows"]
    with pa.ipc.new_stream(sys.stdout.buffer, found.schema) as out:
        for batch in found:
            out.write_batch(batch.slice(0, left))
            left -= min(left, batch.num_rows)
            if not left:
                break


def make_view(
    database: duckdb.DuckDBPyConnection, kind: str, variants: list[list[str]], cutoffs: dict[str, int]
) -> None:
    """A view of one kind; variants whose columns differ are united by column name."""
    columns = STEPS if kind == "steps" else "*"
    parts = []
    for number, paths in enumerate(variants):
        source = f"read_parquet({paths!r})"
        raw = kind == "steps" and "data" in {
            row[0] for row in database.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        }
        condition = visible_rows(kind, cutoffs)
        database.execute(f'CREATE VIEW "{kind}_{number}" AS SELECT {columns} FROM {source} WHERE {condition}')
        if not raw:
            parts.append(f'SELECT * FROM "{kind}_{number}"')
    if parts:
        database.execute(f'CREATE VIEW "{kind}" AS {" UNION ALL BY NAME ".join(parts)}')


def make_joined_view(database: duckdb.DuckDBPyConnection, kind: str, joined: dict[str, Any]) -> None:
    """A view of one kind over many runs: the name of a file gives its run."""
    rule = COUNTERS.get(kind, "true")
    visible = (
        f"c.cutoff IS NULL OR (c.cutoff >= 0 AND {rule.format('c.cutoff')})" if kind in COUNTERS else "true"
    )
    database.execute(
        f'CREATE VIEW "{kind}" AS SELECT s.run_id, r.* EXCLUDE (filename) '
        f"FROM read_parquet({joined['files']!r}, filename = true) r "
        f"JOIN read_parquet({[joined['sources']]!r}) s ON s.file = r.filename "
        f"LEFT JOIN read_parquet({[joined['cutoffs']]!r}) c ON c.run_id = s.run_id AND c.attempt = r.attempt "
        f"WHERE {visible}"
    )


def task_paths(task: dict[str, Any]) -> list[str]:
    """Every file that the query may read."""
    paths = [path for variants in task.get("files", {}).values() for group in variants for path in group]
    paths += task.get("tables", {}).values()
    for joined in task.get("joined", {}).values():
        paths += [*joined["files"], joined["sources"], joined["cutoffs"]]
    return paths


def visible_rows(kind: str, cutoffs: dict[str, int]) -> str:
    """Condition for rows that no later attempt supersedes."""
    rule = COUNTERS.get(kind)
    if not rule:
        return "true"
    return " AND ".join(
        [
            "true",
            *(
                f"(attempt <> {int(a)} OR {rule.format(int(c)) if c >= 0 else 'false'})"
                for a, c in cutoffs.items()
            ),
        ]
    )


def lock_down(database: duckdb.DuckDBPyConnection, task: dict[str, Any]) -> None:
    """Allow only the given files to be read, and no setting to be changed."""
    database.execute(f"SET allowed_paths = {task_paths(task)!r}")
    database.execute(f"SET memory_limit = '{int(task['memory_mib'])}MiB'")
    database.execute("SET threads = 1")
    database.execute("SET autoinstall_known_extensions = false")
    database.execute("SET autoload_known_extensions = false")
    database.execute("SET temp_directory = ''")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


if __name__ == "__main__":
    sys.exit(main())
