"""Answers the queries of a report from a stack."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from runspine import __version__
from runspine.errors import InvalidError, Violation
from runspine.reports.charts import Line, line_chart
from runspine.reports.document import Prose, Query, parse
from runspine.reports.markdown import to_html
from runspine.reports.page import html_page, html_table

if TYPE_CHECKING:
    from runspine.api import Api, RunHandle

SAMPLES = 400
MAX_LINES = 50
MAX_ROWS = 1000
_TITLE = re.compile(r"#\s+(.*)")


def build(api: Api, source: str) -> str:
    """The report as HTML. Raises RunspineError; what is wrong in the source is named by its line."""
    blocks = parse(source)
    parts = [to_html(each.lines) if isinstance(each, Prose) else _answered(api, each) for each in blocks]
    title = next((found[1] for line in source.splitlines() if (found := _TITLE.match(line))), "Report")
    made = f"made by runspine {__version__} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return html_page(title, parts, made)


def _answered(api: Api, query: Query) -> str:
    try:
        return {"chart": _chart, "runs": _runs, "sql": _sql}[query.kind](api, query)
    except InvalidError as error:
        found = [Violation(f"line {query.line}: {each.field}", each.message) for each in error.violations]
        raise InvalidError(
            error.message, found or [Violation(f"line {query.line}", error.message)]
        ) from error


def _chosen(api: Api, query: Query, limit: int) -> list[RunHandle]:
    """The runs that a block names or filters."""
    ids = query.fields.get("ids") or []
    if ids:
        return [api.run(str(each)) for each in ([ids] if isinstance(ids, str) else ids)]
    filters = query.fields.get("runs") or {}
    return list(islice(api.runs(**filters), limit))


def _chart(api: Api, query: Query) -> str:
    fields = query.fields
    metric, runs = fields["metric"], _chosen(api, query, MAX_LINES)
    title = str(fields.get("title") or metric)
    if not runs:
        return line_chart([], title=title)
    samples = int(fields.get("samples") or SAMPLES)
    table = api.frame(runs, metric, samples=samples)
    columns = {name: table.column(name).to_pylist() for name in ("run", "step", "value", "low", "high")}
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    for run, *row in zip(*columns.values(), strict=True):
        rows.setdefault(str(run), []).append(tuple(_number(each) for each in row))  # type: ignore[arg-type]
    lines = [
        Line(_label(run, fields.get("by")), *map(list, zip(*rows[run.id], strict=True)))
        for run in runs
        if rows.get(run.id)
    ]
    return line_chart(lines, title=title, log=bool(fields.get("log")))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _label(run: RunHandle, by: Any) -> str:
    """The name of a line: that of the run, or some of its fields, labels and parameters."""
    names = [by] if isinstance(by, str) else list(by or ())
    if not names:
        return run.name
    return ", ".join(f"{name} {_field(run, str(name))}" for name in names)


def _field(run: RunHandle, name: str) -> Any:
    if name in ("env", "algo", "seed", "project", "owner", "state", "name"):
        return getattr(run, name)
    return run.labels.get(name, run.config.get(name, "–"))


def _runs(api: Api, query: Query) -> str:
    fields = query.fields
    metrics, params = _names(fields.get("metrics")), _names(fields.get("params"))
    rows = []
    for run in _chosen(api, query, MAX_ROWS):
        summary = run.summary if metrics else {}
        values = [*(_field(run, name) for name in params), *(summary.get(name) for name in metrics)]
        rows.append([run.name, run.state, run.env, run.algo, *values])
    return html_table(
        ["run", "state", "env", "algo", *params, *metrics], rows, str(fields.get("title") or "")
    )


def _names(given: Any) -> list[str]:
    return [str(given)] if isinstance(given, str) else [str(each) for each in given or ()]


def _sql(api: Api, query: Query) -> str:
    found = api.sql(query.text, max_rows=MAX_ROWS)
    rows: Iterable[Any] = found.to_pylist()
    return html_table(found.column_names, [list(row.values()) for row in rows])
