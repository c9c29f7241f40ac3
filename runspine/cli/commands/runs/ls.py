"""`runspine ls`: list runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import parse_pairs, parse_time_option
from runspine.cli.ui.screen import Cell, echo_json, has_ended, note, phase_cell, phase_word, table
from runspine.domain.run import ACTIVE, ENDED
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
OPTIONAL = ("ENV", "ALGO", "LATEST", "STEPPED", "TRACKED")
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
    "--limit", type=click.IntRange(1), default=30, show_default=True, help="Maximum number of runs."
)
@click.option("--all", "everything", is_flag=True, help="List all runs.")
@json_option
def ls(limit: int, everything: bool, as_json: bool, **filters: Any) -> None:
    """List runs, newest first."""
    request = _request(**filters)
    request.page_size = PAGE_SIZE if everything else min(limit, PAGE_SIZE)
    with Client() as client:
        pages = client.pages(request)
        first = next(pages)
        found: Iterator[RunSummary] = itertools.chain(
            first.runs, (run for page in pages for run in page.runs)
        )
        runs = list(found if everything else itertools.islice(found, limit))
    if as_json:
        echo_json({"runs": [to_plain(run) for run in runs], "total": first.total})
        return
    if not runs:
        note("no runs" if not any(filters.values()) else "no runs match")
        return
    show_table(runs)
    if len(runs) < first.total:
        note(f"{len(runs)} of {first.total:,} runs; --all lists every run")


def show_table(runs: list[RunSummary]) -> None:
    short = short_ids(summary.run.id for summary in runs)
    rows = [_row(summary, short[summary.run.id]) for summary in runs]
    headings = ("STATE", "ID", "NAME", "ENV", "ALGO", "SEED", *FIGURES, "AGE", "WORKER", "TRACKED")
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
    """Its run at an experiment tracker: cartpole/ppo-1 (syncing)."""
    tracking = summary.tracking
    place = "/".join(part for part in (tracking.project, tracking.name or tracking.run) if part)
    state = enum_word(TrackingState.DESCRIPTOR, tracking.state)
    return middle_cut(place or tracking.service, 30) + (f" ({state})" if state else "")


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
