"""`runspine import-runs`: bring the runs of other tools along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.screen import console, echo, echo_json, is_live, note, table
from runspine.errors import RefusedError
from runspine.rpc.trainer_client import Client
from runspine.text.values import escaped

if TYPE_CHECKING:
    from runspine.imports.source import SourceRun
    from runspine.imports.submission import ImportedRun

TOOLS = ("tensorboard", "wandb", "mlflow", "csv")


@click.command(name="import-runs")
@click.argument("path", metavar="FILE | FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--from", "tool", type=click.Choice(TOOLS), help="Tool that wrote it.  [default: all that are found]"
)
@click.option("--project", default="", help="Project of the runs.  [default: the source's]")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Label of the runs; repeatable.")
@click.option("--dry-run", is_flag=True, help="List what would be imported.")
@json_option
def import_runs(
    path: Path, tool: str | None, project: str, labels: tuple[str, ...], dry_run: bool, as_json: bool
) -> int:
    """Import runs of TensorBoard, W&B, MLflow and CSV, with every point at its own step and time.

    Each becomes a run with its name and its parameters, labelled `imported`, which a worker reports. What was
    imported before is not imported again; after an interruption the same command goes on.

    \b
    runspine import-runs logs/                    # folders with event files, mlruns, wandb, .csv
    runspine import-runs wandb/ --from wandb      # offline-run-*/run-*.wandb
    runspine import-runs mlflow.db --project old
    """
    from runspine.imports.finding import find_runs

    found = find_runs(path, tool or "")
    if dry_run:
        return _list(found, as_json)
    given = dict(_label(each) for each in labels)
    done, refused = _import_all(found, project, given, as_json)
    if as_json:
        echo_json({"imported": [_plain(each) for each in done], "refused": refused})
    else:
        _report(done, refused)
    return FAILED if refused else OK


def _import_all(
    found: list[SourceRun], project: str, labels: dict[str, str], as_json: bool
) -> tuple[list[ImportedRun], list[dict[str, str]]]:
    from runspine.imports.submission import import_run

    done: list[ImportedRun] = []
    refused: list[dict[str, str]] = []
    with Client() as client, _bar(len(found), as_json) as advance:
        for source in found:
            try:
                done.append(import_run(client, source, project, labels))
            except (RefusedError, OSError) as error:
                refused.append({"name": source.name, "path": source.where, "refused": str(error)})
            advance()
    return done, refused


@contextmanager
def _bar(total: int, as_json: bool) -> Iterator[Callable[[], None]]:
    if not is_live(as_json):
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _label(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--label")
    return name, value


def _list(found: list[SourceRun], as_json: bool) -> int:
    plain = [{"tool": each.tool, "name": each.name, "path": each.where} for each in found]
    if as_json:
        echo_json({"found": plain})
    else:
        table(
            ["tool", "name", "path"],
            [[each["tool"], *map(escaped, (each["name"], each["path"]))] for each in plain],
        )
    return OK


def _plain(each: ImportedRun) -> dict[str, object]:
    found = each.source
    return {
        "run_id": each.run_id,
        "name": found.name,
        "tool": found.tool,
        "path": found.where,
        "points": each.points,
        "created": each.created,
    }


def _report(done: list[ImportedRun], refused: list[dict[str, str]]) -> None:
    rows = [
        [
            each.run_id,
            escaped(each.source.name),
            each.source.tool,
            f"{each.points:,}",
            "new" if each.created else "known",
        ]
        for each in done
    ]
    if rows:
        table(["run", "name", "tool", "points", ""], rows, right=["points"])
        new = sum(each.created for each in done)
        echo(f"{new:,} runs imported, {len(done) - new:,} known; `runspine ls --label imported=…` lists them")
    for each in refused:
        note(f"refused {escaped(each['path'])}: {escaped(each['refused'])}")
