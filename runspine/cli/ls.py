"""`runspine ls`: runs in a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import click

from runspine.cli.ask import moment_option, pairs
from runspine.cli.edge import json_option
from runspine.cli.screen import Cell, has_ended, note, phase_cell, phase_word, say_json, table
from runspine.cli.text import age, middle_cut, number, short_ids
from runspine.client import Client
from runspine.plain import to_plain
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.trainer_pb2 import ListRequest, RunSummary

PAGE = 500
_GROUPS = {
    "active": ["submitted", "queued", "running", "stale", "cancelling"],
    "ended": ["completed", "failed", "cancelled"],
}
_STATES = [Phase.Name(value).lower() for value in Phase.values() if value]


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([*_STATES, *_GROUPS], case_sensitive=False),
    help="Only runs in this state; repeat for more. active and ended stand for several.",
)
@click.option("--env", default="", help="Only this environment.")
@click.option("--algo", default="", help="Only this algorithm.")
@click.option("--runner", default="", help="Only this runner.")
@click.option("--project", default="", help="Only this project.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs with this label.")
@click.option("--name", default="", help="Only names that contain this.")
@click.option("--since", help="Submitted after: an age such as 2h, or a date and time.")
@click.option("--until", help="Submitted before, in the same forms.")
@click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="How many at most.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@json_option
def ls(limit: int, everything: bool, as_json: bool, **filters: Any) -> None:
    """List runs, newest first."""
    request = _request(**filters)
    request.page_size = PAGE if everything else min(limit, PAGE)
    with Client() as client:
        pages = client.pages(request)
        first = next(pages)
        found: Iterator[RunSummary] = itertools.chain(
            first.runs, (run for page in pages for run in page.runs)
        )
        runs = list(found if everything else itertools.islice(found, limit))
    if as_json:
        say_json({"runs": [to_plain(run) for run in runs], "total": first.total})
        return
    if not runs:
        note("no runs" if not any(filters.values()) else "no runs match")
        return
    show_table(runs)
    if len(runs) < first.total:
        note(f"{len(runs)} of {first.total:,} runs; --all shows every one")


def show_table(runs: list[RunSummary]) -> None:
    short = short_ids(summary.run.id for summary in runs)
    rows = [_row(summary, short[summary.run.id]) for summary in runs]
    headings = ("STATE", "ID", "NAME", "ENV", "ALGO", "SEED", "PROGRESS", "RETURN", "AGE", "WORKER")
    # A column nobody fills only takes room.
    kept = [i for i, h in enumerate(headings) if h not in ("ENV", "ALGO") or any(_text(r[i]) for r in rows)]
    table(
        [headings[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        right=("SEED", "PROGRESS", "RETURN", "AGE"),
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
        age(run.submitted_at),
        middle_cut(run.worker_id, 20) if phase_word(run.phase) not in ("submitted", "queued") else "",
    ]


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
        labels=pairs(labels, "--label"),
        submitted_after=moment_option(since, "--since"),
        submitted_before=moment_option(until, "--until"),
    )
    request.phases.extend(cast(Phase, Phase.Value(word.upper())) for word in dict.fromkeys(words))
    for field, value in same.items():
        setattr(request, field, value)
    return request
