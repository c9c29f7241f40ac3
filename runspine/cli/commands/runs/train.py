"""`runspine train`: submit a run and follow it, with a temporary stack when none is up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from runspine.cli.commands.runs.submit import (
    group_name,
    read_file,
    report,
    seed_sets,
    seeds_option,
    set_option,
    submit_all,
)
from runspine.cli.commands.stack.stack import StartProgress, home_option
from runspine.cli.errors import json_option
from runspine.cli.lookup.project_code import CodeOptions, attach_code
from runspine.cli.ui.follow import follow_runs
from runspine.cli.ui.screen import echo, note
from runspine.ids import new_ulid
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import group_labels

STOP_MESSAGE = (
    "stopping the temporary stack; unfinished runs stay queued "
    "and resume from their last checkpoint with the next `runspine up`"
)


@click.command()
@click.argument("file", metavar="FILE | -")
@set_option
@seeds_option
@home_option
@click.option("--keep", is_flag=True, help="Keep the temporary stack running afterwards.")
@json_option
def train(file: str, sets: tuple[str, ...], seeds: str | None, home: Path, keep: bool, as_json: bool) -> int:
    """Submit a run and follow it to its end.

    When no stack is up, a temporary one is started and stopped afterwards.
    """
    run_file = read_file(file, [*sets, *seed_sets(seeds)])
    key = new_ulid()
    if run_file.several:
        group_labels(run_file, group_name(file, key))
    with temporary_stack(home, keep, as_json) as own, Client() as client:
        attach_code(client, run_file, CodeOptions(), as_json)
        answers = submit_all(client, run_file, key, as_json)
        report(run_file, answers, as_json)
        runs = [answer.run for answer in answers]
        parting = STOP_MESSAGE if own and not keep else ""
        code = follow_runs(client, runs, as_json, parting)
        if not as_json:
            echo_next_steps(runs[0].id, own and not keep)
    return code


@contextmanager
def temporary_stack(home: Path, keep: bool, as_json: bool) -> Iterator[bool]:
    """Use the running stack or start a temporary one; yield whether it is temporary."""
    from runspine.cli.lookup.stack_workers import await_online
    from runspine.embedded.background import start_detached, stop_running
    from runspine.embedded.home import Home
    from runspine.embedded.plan import StackOptions
    from runspine.embedded.record import running_record

    place = Home.at(home)
    os.environ["RUNSPINE_HOME"] = str(place.path)
    if os.environ.get("RUNSPINE_ADDRESS") or running_record(place) is not None:
        yield False
        return
    progress = StartProgress(as_json)
    try:
        record = start_detached(place, StackOptions(), progress.on_event)
        await_online(place.path, record)
    finally:
        progress.close()
    try:
        yield True
    finally:
        if keep:
            note("the stack keeps running; stop it with: runspine down")
        else:
            stop_running(place)


def echo_next_steps(run_id: str, going: bool) -> None:
    """Print the commands that show more of the run."""
    echo()
    if going:
        echo("The stack is stopped; its data is kept. Next steps:")
        echo("  runspine up --detach")
    else:
        echo("Next steps:")
    echo(f"  runspine show {run_id[:12]}      facts, attempts, command and spec of the run")
    echo(f"  runspine logs {run_id[:12]}      output of the trainer")
    echo("  runspine ls                    list runs")
    echo("  runspine web                   curves, episodes and checkpoints in a browser")
    echo("  runspine events verify         verify the event log")
