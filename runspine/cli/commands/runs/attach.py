"""`runspine attach` and `runspine stack`: looking at a running trainer where it runs."""

from __future__ import annotations

import sys

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find, run_argument
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import escaped
from runspine.wire.v1.processes_pb2 import ProcessStacks


@click.command()
@run_argument
@json_option
def stack(run: str, as_json: bool) -> None:
    """Print the Python stacks of the processes of a running run.

    \b
    runspine stack 01KAQ3

    py-spy reads them on the run's worker, without stopping the trainer.
    """
    with Client() as client:
        found = client.dump_stacks(find(client, run).run.id)
    if as_json:
        echo_json(to_plain(found))
        return
    for process in found.processes:
        _print(process)
    if found.left_out:
        note(f"{found.left_out} more processes are left out")


def _print(process: ProcessStacks) -> None:
    waits = f", waits in {process.waits_in}" if process.waits_in else ""
    command = " ".join(escaped(process.command).split())
    echo(f"process {process.pid}  {command}")
    echo(f"  state {process.state}{waits}" + (f"; no stacks: {process.missing}" if process.missing else ""))
    for line in process.lines:
        echo(f"  {escaped(line)}")
    echo("")


@click.command(context_settings={"ignore_unknown_options": True})
@run_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def attach(run: str, command: tuple[str, ...]) -> None:
    """Open a shell next to a running trainer.

    \b
    runspine attach 01KAQ3
    runspine attach 01KAQ3 -- nvidia-smi

    It has the trainer's sandbox, environment, files and limits, and ends with it. Ctrl-] ends it.
    """
    from runspine.cli.ui.terminal import attached

    with Client() as client:
        code = attached(client, find(client, run).run.id, command)
    sys.exit(code)
