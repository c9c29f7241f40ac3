"""`runspine sql`: read-only SQL over many runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import parse_pairs, parse_time_option
from runspine.cli.ui.screen import echo_json, note, table
from runspine.cli.ui.series_file import check_ending, write_rows
from runspine.errors import InvalidError
from runspine.text.values import escaped

SHOWN = 1000


@click.command()
@click.argument("query")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--state", "states", multiple=True, help="Only runs in this state; repeatable.")
@click.option("--env", default="", help="Only runs of this env.")
@click.option("--algo", default="", help="Only runs of this algorithm.")
@click.option("--runner", default="", help="Only runs of this runner.")
@click.option("--project", default="", help="Only runs of this project.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs with this label.")
@click.option("--since", help="Submitted after: an age such as 2h, or a date and time.")
@click.option("--until", help="Submitted before: an age, or a date and time.")
@click.option("--max-rows", type=click.IntRange(1, 1_000_000), default=SHOWN, show_default=True, help="Rows.")
@click.option("--out", type=click.Path(path_type=Path), help="Write to a .csv or .parquet file instead.")
@json_option
def sql(
    query: str, runs: tuple[str, ...], max_rows: int, out: Path | None, as_json: bool, **filters: Any
) -> None:
    """Answer one SELECT over the tables of these RUNs, or of all that match.

    Tables: runs, params, labels, artifacts, metrics, episodes, logs, evaluations. Each has a column run_id.

    \b
    runspine sql "SELECT env, state, count(*) FROM runs GROUP BY ALL"
    runspine sql "SELECT run_id, max(value) FROM metrics WHERE name = 'loss' GROUP BY 1" --env CartPole-v1
    """
    found = _query(query, runs, max_rows, out, **filters)
    rows = found.to_pylist()
    if out is not None:
        write_rows(out, found.column_names, [list(row.values()) for row in rows])
        note(f"{len(rows):,} rows in {out}")
    elif as_json:
        echo_json({"columns": found.column_names, "rows": [_plain(row) for row in rows]})
    else:
        shown = [["" if value is None else escaped(str(value)) for value in row.values()] for row in rows]
        table([escaped(name) for name in found.column_names], shown)
        if len(rows) == max_rows and sys.stderr.isatty():
            note(f"the first {max_rows:,} rows; --max-rows shows more")


def _query(query: str, runs: tuple[str, ...], max_rows: int, out: Path | None, **filters: Any) -> Any:
    if out is not None:
        check_ending(out)
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidError("SQL needs the package pyarrow: pip install 'runspine[api]'") from error
    from runspine.api import Api

    chosen = any(filters.values())
    if runs and chosen:
        raise click.UsageError("name runs or choose them by options, not both")
    with Api() as api:
        matching = _matching(api, **filters) if chosen else None
        return api.sql(query, list(runs) or matching, max_rows=max_rows)


def _matching(
    api: Any,
    states: tuple[str, ...],
    labels: tuple[str, ...],
    since: str | None,
    until: str | None,
    **same: str,
) -> Any:
    """The runs that the options choose."""
    after, before = parse_time_option(since, "--since"), parse_time_option(until, "--until")
    found = api.runs(
        state=states,
        labels=parse_pairs(labels, "--label"),
        since=after / 1e6 if after else None,
        until=before / 1e6 if before else None,
        page_size=1000,
        **same,
    )
    if not len(found):
        raise click.UsageError("no run matches; `runspine ls` lists runs")
    return found


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with times as text; numbers and lists stay as they are."""
    return {name: value if _is_json(value) else str(value) for name, value in row.items()}


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)
