"""`runspine nats-store`: the store of a stopped nats-server, checked before it starts."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runspine.cli.errors import FAILED, OK, UNREACHABLE, json_option
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.cli.ui.transfer_bar import transfer_bar
from runspine.errors import RefusedError
from runspine.text.values import escaped, size

if TYPE_CHECKING:
    from runspine.nats_store.check import Report, StoreReport

TWO_DAMAGED = (
    "Nothing is changed, and this server must not start. Bring its peers up. If another one is damaged, too, "
    "decide which store to keep: docs/howto/kubernetes.md, A damaged store"
)

ONE_COPY = (
    "Restore a backup, or start the server with what is left: docs/howto/kubernetes.md, A damaged store"
)


@click.group("nats-store")
def nats_store() -> None:
    """Check the store of a stopped nats-server; move a damaged one aside."""


@nats_store.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--set-aside", is_flag=True, help="Move a damaged store aside, once all peers are healthy.")
@click.option("--peers", default="", help="Monitoring URLs of all other servers, comma-separated.")
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="Seconds to wait until all peers are healthy.",
)
@json_option
def check(directory: Path, set_aside: bool, peers: str, patience: float, as_json: bool) -> int:
    """Check every record below DIRECTORY, the store_dir of a nats-server that does not run.

    Exit code 0: whole, or set aside; 1: damaged, nothing is changed; 3: damaged, and a peer is not healthy;
    5: damaged, and a stream has one replica, so that no other server has a copy.
    Compressed blocks are counted as not checked.
    """
    urls = [url.strip() for url in peers.split(",") if url.strip()]
    if set_aside and not urls:
        raise click.UsageError("--set-aside requires --peers: without them nothing has what this store lacks")
    _check_directory(directory)
    report = _report(directory, as_json)
    if not as_json:
        _echo_report(report)
    if not report.damaged or not set_aside:
        if as_json:
            echo_json({**report.as_json(), "set_aside": None})
        return FAILED if report.damaged else OK
    if report.only_here:
        names = ", ".join(escaped(store.name) for store in report.only_here)
        raise RefusedError(
            f"nothing is changed: no other server has a copy of {names} (one replica). {ONE_COPY}"
        )
    return _set_aside(directory, report, urls, patience, as_json)


def _check_directory(directory: Path) -> None:
    """A folder that is no store_dir must not pass for a whole one. A new store is empty."""
    from runspine.nats_store.set_aside import PREFIX
    from runspine.nats_store.stores import jetstream_of

    others = [path for path in directory.iterdir() if not path.name.startswith((PREFIX, "lost+found"))]
    if others and not jetstream_of(directory).is_dir():
        raise click.UsageError(
            f"{directory} is not the store_dir of a nats-server: it has no folder jetstream, but "
            f"{escaped(min(path.name for path in others))}. Give the store_dir of its configuration"
        )


def _report(directory: Path, as_json: bool) -> Report:
    from runspine.nats_store.check import check as check_stores

    with transfer_bar("checking", as_json) as progress:
        return check_stores(directory, progress)


def _set_aside(directory: Path, report: Report, peers: list[str], patience: float, as_json: bool) -> int:
    from runspine.nats_store.set_aside import set_aside, wait_for_peers

    def waiting(unhealthy: dict[str, str]) -> None:
        note(
            "damaged; waiting for " + ", ".join(f"{peer} ({escaped(why)})" for peer, why in unhealthy.items())
        )

    unhealthy = wait_for_peers(peers, patience, waiting)
    if unhealthy:
        return _refuse(report, unhealthy, patience, as_json)
    place = set_aside(directory, time.time())
    if as_json:
        echo_json({**report.as_json(), "set_aside": str(place)})
        return OK
    taken = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    free = shutil.disk_usage(place.parent).free
    echo(f"moved to {place}; the server starts empty and copies everything from its peers", "yellow")
    if free < taken:
        note(f"{size(free)} are free, and it has {size(taken)}: delete {place}, or the disk fills up")
    return OK


def _refuse(report: Report, unhealthy: dict[str, str], patience: float, as_json: bool) -> int:
    if as_json:
        echo_json({**report.as_json(), "set_aside": None, "unhealthy_peers": unhealthy})
    for peer, why in unhealthy.items():
        note(f"{peer} is not healthy after {patience:.0f} s: {escaped(why)}")
    note(TWO_DAMAGED)
    return UNREACHABLE


def _echo_report(report: Report) -> None:
    for store in report.stores:
        _echo_store(store)
    echo(f"{len(report.stores)} stores, {size(report.bytes)}, {size(round(report.rate))}/s")


def _echo_store(store: StoreReport) -> None:
    line = f"{store.kind:<6} {escaped(store.name)}: {store.records} records, {size(store.bytes)}"
    if store.bytes_not_checked:
        line += f", {size(store.bytes_not_checked)} compressed or encrypted and not checked"
    echo(line)
    if store.unfinished:
        echo(f"       unfinished end, which is normal after a kill: {store.unfinished}", "dim")
    for damage in store.damage:
        echo(f"       DAMAGED {escaped(store.path)}: {escaped(damage)}", "red")
