"""`runspine cancel`, `resubmit`, `priority` and `label`: change runs."""

from __future__ import annotations

from typing import Any

import click

from runspine.cli.commands.runs.submit import note_notices, set_option, submitted_line
from runspine.cli.errors import EXIT_CODES, OK, json_option, report
from runspine.cli.lookup.project_code import code_of_run
from runspine.cli.lookup.run import find, run_argument
from runspine.cli.ui.follow import follow_run
from runspine.cli.ui.screen import echo, echo_json, has_ended, phase_cell
from runspine.errors import RunspineError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.spec.run_file import apply_overrides
from runspine.text.values import escaped
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import RunSpec


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--reason", default="", help="Reason, stored in the log.")
@click.option("--wait", is_flag=True, help="Wait until the runs have ended.")
@json_option
@click.pass_context
def cancel(ctx: click.Context, runs: tuple[str, ...], reason: str, wait: bool, as_json: bool) -> None:
    """Cancel runs: SIGTERM first, SIGKILL after the grace period."""
    cancelled: list[Any] = []
    code = OK
    with Client() as client:
        for text in runs:
            try:
                run = client.cancel(find(client, text).run.id, reason)
                run = _wait(client, run) if wait else run
            except RunspineError as error:
                report(error.kind, f"{text}: {error}", as_json)
                code = code or EXIT_CODES[error.kind]
                continue
            cancelled.append(to_plain(run))
            if not as_json:
                echo_state(run)
    if as_json:
        echo_json({"runs": cancelled})
    ctx.exit(code)


def _wait(client: Client, run: Run) -> Run:
    if not has_ended(run):
        for message in client.watch(run.id, after=max(0, run.position - 1), until_end=True):
            if message.HasField("run"):
                run = message.run
    return run if has_ended(run) else client.get(run.id).run


@click.command()
@run_argument
@set_option
@click.option("--code-from", default="", metavar="RUN", help="Use the code of this run instead of its own.")
@click.option("--key", default="", help="Idempotency key: the same key returns the same run.")
@click.option("--watch", is_flag=True, help="Follow to the end; the exit code is the outcome.")
@json_option
@click.pass_context
def resubmit(
    ctx: click.Context, run: str, sets: tuple[str, ...], code_from: str, key: str, watch: bool, as_json: bool
) -> None:
    """Submit the spec of a run as a new run, optionally changed. It has the same code as that run."""
    with Client() as client:
        old = find(client, run).run
        changed = _changed(old, sets) if sets or code_from else None
        if changed is not None and code_from:
            directory = changed.code.directory
            changed.code.CopyFrom(code_of_run(client, code_from))
            changed.code.directory = directory or changed.code.directory
        answer = client.resubmit(old.id, changed, key)
        if as_json:
            made = {"run": to_plain(answer.run), "created": answer.created, "notices": list(answer.notices)}
            echo_json({"runs": [made], "group": None})
        else:
            echo(submitted_line(answer.run, answer.created, {}))
            note_notices([answer])
        if watch:
            ctx.exit(follow_run(client, answer.run, as_json))


def _changed(old: Run, sets: tuple[str, ...]) -> RunSpec:
    spec = apply_overrides(old.spec, sets)
    if spec.name == old.name:
        spec.name = ""  # a new run gets a name of its own
    return spec


@click.command()
@run_argument
@click.argument("level", type=click.IntRange(0, 100), metavar="N")
@json_option
def priority(run: str, level: int, as_json: bool) -> None:
    """Change the priority of a waiting run: 0 is last, 100 is first."""
    with Client() as client:
        changed_run = client.set_priority(find(client, run).run.id, level)
    if as_json:
        echo_json({"run": to_plain(changed_run)})
    else:
        echo_state(changed_run, f"priority {changed_run.priority}")


@click.command()
@run_argument
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE | KEY- ...")
@json_option
def label(run: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Set labels (key=value) and remove labels (key-)."""
    labels = dict(_label(change) for change in changes)
    with Client() as client:
        changed_run = client.set_labels(find(client, run).run.id, labels)
    if as_json:
        echo_json({"run": to_plain(changed_run)})
    else:
        echo_state(changed_run, ", ".join(f"{k}={v}" for k, v in sorted(changed_run.labels.items())))


def _label(change: str) -> tuple[str, str]:
    key, equals, value = change.partition("=")
    if equals and key and value:
        return key, value
    if not equals and change.endswith("-") and len(change) > 1:
        return change[:-1], ""
    raise click.UsageError(f"{change}: expected key=value to set a label, or key- to remove it")


def echo_state(run: Run, more: str = "") -> None:
    cell = phase_cell(run.phase)
    echo(
        "  ".join(part for part in (run.id, cell.text, escaped(run.name), escaped(more)) if part), cell.style
    )
