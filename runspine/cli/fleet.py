"""`runspine workers`: who runs the runs."""

from __future__ import annotations

import click

from runspine.cli.edge import json_option
from runspine.cli.screen import Cell, note, say_json, table
from runspine.cli.text import age, middle_cut
from runspine.client import Client
from runspine.plain import to_plain
from runspine.wire.v1.run_pb2 import Worker


@click.command()
@json_option
def workers(as_json: bool) -> None:
    """List workers: where they are, what they serve, how busy they are."""
    with Client() as client:
        found = client.workers()
    if as_json:
        say_json({"workers": [to_plain(worker) for worker in found]})
        return
    if not found:
        note("no worker has been seen yet")
        return
    headings = ("STATE", "WORKER", "HOST", "POOLS", "BUSY", "RUNNERS", "HEARD", "VERSION")
    table(headings, [_worker(worker) for worker in found], right=("BUSY", "HEARD"))


def _worker(worker: Worker) -> list[Cell | str]:
    state = Cell("online", "green") if worker.online else Cell("offline", "red")
    ready = [info.name for info in worker.runners if not info.not_ready]
    return [
        state,
        middle_cut(worker.id, 30),
        middle_cut(worker.host, 30),
        ", ".join(worker.pools),
        f"{len(worker.running)}/{worker.slots}",
        ", ".join(ready),
        age(worker.last_heard),
        worker.version,
    ]
