"""`runspine workers`: list workers."""

from __future__ import annotations

import click

from runspine.cli.errors import json_option
from runspine.cli.ui.screen import Cell, echo_json, note, table
from runspine.eventlog.admission import describe
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.machines import disk_text, gpus_text
from runspine.text.values import age, escaped, middle_cut, size
from runspine.wire.v1.run_pb2 import MachineStatus, Worker

HEADINGS = (
    *("STATE", "WORKER", "HOST", "POOLS", "BUSY", "DISK", "RUNS KEPT"),
    *("SANDBOX", "RUNNERS", "LAST SEEN", "VERSION"),
)
FIGURES = ("BUSY", "DISK", "RUNS KEPT", "LAST SEEN")


@click.command()
@json_option
def workers(as_json: bool) -> None:
    """List workers with their host, pools, load, disk, GPUs and runners."""
    with Client() as client:
        found = client.workers()
    if as_json:
        echo_json({"workers": [to_plain(worker) for worker in found]})
        return
    if not found:
        note("no worker has been seen yet")
        return
    table(HEADINGS, [_worker(worker) for worker in found], right=FIGURES)
    for worker in found:
        if worker.HasField("quarantine"):
            note(f"{escaped(worker.id)}: {describe(worker.quarantine)}")
        if gpus := gpus_text(worker.machine):
            note(f"{escaped(worker.id)}: {gpus}")
        if worker.online and worker.sandbox_missing:
            note(f"{escaped(worker.id)}: trainers are not sandboxed: {escaped(worker.sandbox_missing)}")


def _worker(worker: Worker) -> list[Cell | str]:
    state = Cell("online", "green") if worker.online else Cell("offline", "red")
    if worker.HasField("quarantine"):
        state = Cell("quarantined", "red")
    ready = [info.name for info in worker.runners if not info.not_ready]
    return [
        state,
        middle_cut(worker.id, 30),
        middle_cut(worker.host, 30),
        ", ".join(worker.pools),
        f"{len(worker.running)}/{worker.slots}",
        disk_text(worker.machine) or "–",
        _runs_kept(worker.machine),
        worker.sandbox or Cell("none", "yellow"),
        ", ".join(ready),
        age(worker.last_heard),
        worker.version,
    ]


def _runs_kept(machine: MachineStatus) -> str:
    """Directories of runs, and what they take: 12 (3.4 GB)."""
    if not machine.HasField("run_folders"):
        return "–"
    taken = f" ({size(machine.run_folder_bytes)})" if machine.HasField("run_folder_bytes") else ""
    return f"{machine.run_folders:,}{taken}"
