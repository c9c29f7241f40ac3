"""`runspine train`: from a run file to its result, with a stack of its own when none is up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from runspine.cli.edge import json_option
from runspine.cli.follow import follow_group, follow_run
from runspine.cli.screen import note, say
from runspine.cli.stack import Progress, home_option
from runspine.cli.submit import group_name, read_file, report, seed_sets, seeds_option, set_option, submit_all
from runspine.client import Client
from runspine.ids import new_ulid
from runspine.runfile import group_labels

STOPPING = (
    "stopping the stack that was started for this; what has not ended waits, "
    "and goes on from its last checkpoint with the next `runspine up`"
)


@click.command()
@click.argument("file", metavar="FILE | -")
@set_option
@seeds_option
@home_option
@click.option("--keep", is_flag=True, help="Leave a stack that was started for this running afterwards.")
@json_option
def train(file: str, sets: tuple[str, ...], seeds: str | None, home: Path, keep: bool, as_json: bool) -> int:
    """Submit a run and follow it to its end.

    When no stack is up, one is started for this run and stopped after it.
    """
    asked = read_file(file, [*sets, *seed_sets(seeds)])
    key = new_ulid()
    if asked.several:
        group_labels(asked, group_name(file, key))
    with stack_for_a_run(home, keep, as_json) as own, Client() as client:
        answers = submit_all(client, asked, key, as_json)
        report(asked, answers, as_json)
        runs = [answer.run for answer in answers]
        parting = STOPPING if own and not keep else ""
        if asked.several:
            code = follow_group(client, runs, as_json, parting)
        else:
            code = follow_run(client, runs[0], as_json, parting)
        if not as_json:
            look_further(runs[0].id, own and not keep)
    return code


@contextmanager
def stack_for_a_run(home: Path, keep: bool, as_json: bool) -> Iterator[bool]:
    """A stack to use: the one that is up, or one of our own; whether it is our own."""
    from runspine.embedded.background import start_detached, stop_running
    from runspine.embedded.home import Home
    from runspine.embedded.plan import Wish
    from runspine.embedded.record import running_record

    place = Home.at(home)
    os.environ["RUNSPINE_HOME"] = str(place.path)
    if os.environ.get("RUNSPINE_ADDRESS") or running_record(place) is not None:
        yield False
        return
    progress = Progress(as_json)
    try:
        start_detached(place, Wish(), progress.hear)
    finally:
        progress.close()
    try:
        yield True
    finally:
        if keep:
            note("the stack stays up; stop it with: runspine down")
        else:
            stop_running(place)


def look_further(run_id: str, going: bool) -> None:
    """What to do next."""
    say()
    if going:
        say("The stack is stopped again; everything is kept. To look further:")
        say("  runspine up --detach")
    else:
        say("To look further:")
    say(f"  runspine show {run_id[:12]}      the run: facts, attempts, command, spec")
    say(f"  runspine logs {run_id[:12]}      what the trainer printed")
    say("  runspine ls                    all runs")
    say("  runspine web                   the same in a browser: curves, episodes, checkpoints")
    say("  runspine events verify         proof that the log is whole")
