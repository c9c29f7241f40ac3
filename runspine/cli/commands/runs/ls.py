"""`runspine ls`: list runs."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.conditions import checked_field, field_value, parse_condition, shown
from runspine.cli.lookup.run import parse_pairs, parse_time_option
from runspine.cli.ui.screen import Cell, echo_json, has_ended, note, phase_cell, phase_word, table
from runspine.domain.run import ACTIVE, ENDED
from runspine.domain.tracking import LABEL, OFFLINE_LABEL, clean_url
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import enum_word, to_plain
from runspine.text.values import age, middle_cut, number, short_ids
from runspine.wire.v1.facts_pb2 import TrackingState
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.trainer_pb2 import ListRequest, RunSummary

PAGE_SIZE = 500
# How far, the mean return of the last episodes, the last return, and when the step last rose.
FIGURES = ("PROGRESS", "RETURN", "LATEST", "STEPPED")
# Columns that are left out when no run has a value.
OPTIONAL = ("ENV", "ALGO", "LATEST", "STEPPED", "W&B")
_STATES = [Phase.Name(value).lower() for value in Phase.values() if value]
_GROUPS = {
    name: [Phase.Name(phase).lower() for phase in sorted(phases)]
    for name, phases in {"active": ACTIVE, "ended": ENDED}.items()
}


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([*_STATES, *_GROUPS], case_sensitive=False),
    help="Only runs in this state; repeatable. active and ended are groups of states.",
)
@click.option("--env", default="", help="Only this env.")
@click.option("--algo", default="", help="Only this algorithm.")
@click.option("--runner", default="", help="Only this runner.")
@click.option("--project", default="", help="Only this project.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs with this label.")
@click.option("--name", default="", help="Only names that contain this text.")
@click.option("--since", help="Submitted after: an age such as 2h, or a date and time.")
@click.option("--until", help="Submitted before: an age, or a date and time.")
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Only runs for which it holds: 'params.lr<1e-3', 'config.gamma=0.99', 'return>400'; repeatable.",
)
@click.option(
    "--columns", default="", metavar="FIELDS", help="Further columns: params.lr,config.gamma,labels.paper."
)
@click.option(
    "--limit", type=click.IntRange(1), default=30, show_default=True, help="Maximum number of runs."
)
@click.option("--all", "everything", is_flag=True, help="List all runs.")
@json_option
def ls(
    limit: int, everything: bool, as_json: bool, conditions: tuple[str, ...], columns: str, **filters: Any
) -> None:
    """List runs, newest first."""
    request = _request(**filters)
    # A condition is checked here: runs that do not fit are read, too.
    request.page_size = PAGE_SIZE if everything or conditions else min(limit, PAGE_SIZE)
    checks = [parse_condition(text) for text in conditions]
    fields = [checked_field(field.strip(), "--columns") for field in columns.split(",") if field.strip()]
    with Client() as client:
        pages = client.pages(request)
        first = next(pages)
        found: Iterator[RunSummary] = itertools.chain(
            first.runs, (run for page in pages for run in page.runs)
        )
        values = functools.partial(_value, client, {})
        if checks:
            found = (run for run in found if all(check.holds(values(run, check.field)) for check in checks))
        runs = list(found if everything else itertools.islice(found, limit))
        more = [[values(run, field) for field in fields] for run in runs]
    if as_json:
        total = len(runs) if checks else first.total
        extra = [{"columns": dict(zip(fields, row, strict=True))} if fields else {} for row in more]
        plain = [{**to_plain(run), **each} for run, each in zip(runs, extra, strict=True)]
        echo_json({"runs": plain, "total": total})
        return
    if not runs:
        note("no runs" if not any(filters.values()) and not checks else "no runs match")
        return
    show_table(runs, {field: [shown(row[i]) for row in more] for i, field in enumerate(fields)})
    if len(runs) < first.total and not checks:
        note(f"{len(runs)} of {first.total:,} runs; --all lists every run")
    elif checks and len(runs) == limit and not everything:
        note(f"the newest {limit} that match; --all lists every run")


def _value(client: Client, configs: dict[str, dict[str, Any]], summary: RunSummary, field: str) -> Any:
    """Value of a field; what trainers reported is read run by run, and only where it is needed."""

    def config() -> dict[str, Any]:
        run_id = summary.run.id
        if run_id not in configs:
            attempts = client.get(run_id).attempts
            described = [each.described.config_json for each in attempts if each.described.config_json]
            configs[run_id] = json.loads(described[-1]) if described else {}
        return configs[run_id]

    return field_value(summary, field, config)


def show_table(runs: list[RunSummary], columns: Mapping[str, Sequence[str]] | None = None) -> None:
    columns = columns or {}
    short = short_ids(summary.run.id for summary in runs)
    rows = [
        [*_row(summary, short[summary.run.id]), *(middle_cut(cells[i], 24) for cells in columns.values())]
        for i, summary in enumerate(runs)
    ]
    headings = ("STATE", "ID", "NAME", "ENV", "ALGO", "SEED", *FIGURES, "AGE", "WORKER", "W&B", *columns)
    # Omit empty columns.
    kept = [i for i, h in enumerate(headings) if h not in OPTIONAL or any(_text(r[i]) for r in rows)]
    table(
        [headings[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        right=("SEED", "PROGRESS", "RETURN", "LATEST", "STEPPED", "AGE"),
    )


def _row(summary: RunSummary, short: str) -> list[Cell | str]:
    run, progress = summary.run, summary.progress
    return [
        phase_cell(run.phase),
        short,
        middle_cut(run.name, 36),
        middle_cut(run.spec.env, 24),
        middle_cut(run.spec.algo, 16),
        str(run.spec.seed) if run.spec.HasField("seed") else "",
        _progress(summary),
        number(progress.mean_return) if progress.HasField("mean_return") else "",
        number(progress.last_return) if progress.HasField("last_return") else "",
        age(progress.last_step_at) if progress.last_step_at and not has_ended(run) else "",
        age(run.submitted_at),
        middle_cut(run.worker_id, 20) if phase_word(run.phase) not in ("submitted", "queued") else "",
        _tracked(summary),
    ]


def _tracked(summary: RunSummary) -> str:
    """State of the run at W&B: as its trainer reported it, else after an export."""
    if summary.HasField("tracking"):
        return enum_word(TrackingState.DESCRIPTOR, summary.tracking.state)
    label = summary.run.labels.get(LABEL, "")
    return OFFLINE_LABEL if label == OFFLINE_LABEL else "exported" if clean_url(label) else ""


def _progress(summary: RunSummary) -> str:
    progress = summary.progress
    total = progress.total_steps or summary.run.spec.total_steps
    if total and (progress.step or not has_ended(summary.run)):
        return f"{min(100, 100 * progress.step // total)} %"
    if progress.step:
        return f"{progress.step:,}"
    return f"{progress.episodes:,} ep" if progress.episodes else ""


def _text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _request(
    states: tuple[str, ...], labels: tuple[str, ...], since: str | None, until: str | None, **same: str
) -> ListRequest:
    words = [word for state in states for word in _GROUPS.get(state, [state])]
    request = ListRequest(
        labels=parse_pairs(labels, "--label"),
        submitted_after=parse_time_option(since, "--since"),
        submitted_before=parse_time_option(until, "--until"),
    )
    request.phases.extend(cast(Phase, Phase.Value(word.upper())) for word in dict.fromkeys(words))
    for field, value in same.items():
        setattr(request, field, value)
    return request
