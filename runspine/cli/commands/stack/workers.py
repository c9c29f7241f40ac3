"""`runspine workers`: list workers."""

from __future__ import annotations

import click

from runspine.cli.errors import json_option
from runspine.cli.ui.screen import Cell, echo_json, note, table
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import age, middle_cut
from runspine.wire.v1.run_pb2 import Worker


@click.command()
@json_option
def workers(as_json: bool) -> None:
    """List workers with their host, pools, load and runners."""
    with Client() as client:
        found = client.workers()
    if as_json:
        echo_json({"workers": [to_plain(worker) for worker in found]})
        return
    if not found:
        note("no worker has been seen yet")
        return
    headings = ("STATE", "WORKER", "HOST", "POOLS", "BUSY", "RUNNERS", "LAST SEEN", "VERSION")
    table(headings, [_worker(worker) for worker in found], right=("BUSY", "LAST SEEN"))


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
