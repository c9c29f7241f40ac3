"""`runspine datasets cache`: datasets on the disks of workers."""

from __future__ import annotations

import time

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.screen import echo, echo_json, note, table
from runspine.cli.ui.transfer_bar import waiting_line
from runspine.datasets.registry import registered
from runspine.rpc.trainer_client import Client
from runspine.text.values import age, escaped, size
from runspine.wire.v1.run_pb2 import CachedDataset, Worker

# Workers measure their caches every five seconds, and report every second.
WAIT_SECONDS, POLL_SECONDS = 15.0, 0.5


@click.group()
def cache() -> None:
    """Datasets on the disks of workers: what is there, and removing it."""


@cache.command(name="ls")
@json_option
def ls(as_json: bool) -> None:
    """List the datasets that online workers keep, as of their last heartbeats."""
    with Client() as client:
        workers = [worker for worker in client.workers() if worker.online]
        names = _names(client)
    if as_json:
        echo_json({"workers": [_plain(worker, names) for worker in workers]})
        return
    rows = [
        [worker.id, names.get(each.digest, "-"), each.digest[:12], size(each.bytes), age(each.used_at)]
        for worker in workers
        for each in worker.cached_datasets
    ]
    if not rows:
        note("no online worker keeps a dataset")
        return
    table(["WORKER", "DATASET", "DIGEST", "SIZE", "USED"], rows, right=("SIZE", "USED"))


@cache.command()
@click.argument("dataset", required=False, default="")
@click.option("--worker", default="", help="Only this worker.  [default: every online worker]")
@click.option("--all", "everything", is_flag=True, help="Every dataset.")
@json_option
def prune(dataset: str, worker: str, everything: bool, as_json: bool) -> int:
    """Ask workers to remove a dataset, or all, from their disks; the registry keeps it.

    What a trainer uses, and what was used in the last minute, stays. Workers fetch it again when a run
    needs it.
    """
    if bool(dataset) == everything:
        raise click.UsageError("give a DATASET, or --all")
    with Client() as client:
        asked = client.prune_dataset_cache(worker, dataset)
        ids = {each.id for each in asked.workers}
        before = _held(list(asked.workers), ids, asked.digest)
        with waiting_line("waiting for the workers", as_json):
            left = _wait(client, ids, asked.digest)
    removed = {place: each for place, each in before.items() if place not in left}
    if as_json:
        pairs = {"removed": removed, "left": left}
        echo_json(
            {word: [{"worker": w, "digest": d} for w, d in sorted(found)] for word, found in pairs.items()}
        )
        return FAILED if left else OK
    freed = sum(each.bytes for each in removed.values())
    echo(f"removed {len(removed)} of {len(before)}, {size(freed)}")
    for worker_id, digest in sorted(left):
        note(f"{digest[:12]} stays on {escaped(worker_id)}: in use, or used in the last minute")
    return FAILED if left else OK


def _wait(client: Client, ids: set[str], digest: str) -> dict[tuple[str, str], CachedDataset]:
    """What the workers still hold, once that is nothing or some seconds have passed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        left = _held(list(client.workers()), ids, digest)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_SECONDS)


def _held(workers: list[Worker], ids: set[str], digest: str) -> dict[tuple[str, str], CachedDataset]:
    return {
        (worker.id, each.digest): each
        for worker in workers
        if worker.id in ids
        for each in worker.cached_datasets
        if digest in ("", each.digest)
    }


def _names(client: Client) -> dict[str, str]:
    return {each.artifact.digest: each.name for each in registered(client) if each.artifact.aliases}


def _plain(worker: Worker, names: dict[str, str]) -> dict[str, object]:
    return {
        "worker": worker.id,
        "datasets": [
            {
                "name": names.get(each.digest, ""),
                "digest": each.digest,
                "bytes": each.bytes,
                "used_at": each.used_at,
            }
            for each in worker.cached_datasets
        ],
    }
