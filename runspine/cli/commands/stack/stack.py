"""`runspine up`, `down`, `status` and `doctor`: the stack on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runspine.cli.errors import FAILED, OK, UNREACHABLE, json_option
from runspine.domain.defaults import DEFAULT_POOL
from runspine.text.values import escaped

if TYPE_CHECKING:
    from runspine.doctor import Check
    from runspine.embedded.part import PartEvent
    from runspine.embedded.plan import StackOptions
    from runspine.embedded.record import StackRecord

COLOURS = {"ok": "green", "note": "dim", "warn": "yellow", "fail": "red"}

home_option = click.option(
    "--home",
    envvar="RUNSPINE_HOME",
    default="var",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Home directory of the stack.",
)


@click.command()
@home_option
@click.option(
    "--workers", type=click.IntRange(0, 64), default=1, show_default=True, help="Number of workers."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 1024),
    help="Concurrent runs of each worker.  [default: number of cores]",
)
@click.option(
    "--pools", default=DEFAULT_POOL, show_default=True, help="Pools of the workers, comma-separated."
)
@click.option("--page/--no-page", default=True, show_default=True, help="Serve the web page.")
@click.option("--detach", is_flag=True, help="Run in the background; return when ready.")
@json_option
def up(
    home: Path, workers: int, slots: int | None, pools: str, page: bool, detach: bool, as_json: bool
) -> int:
    """Start NATS, S3 and all services on this machine; Ctrl-C stops them."""
    from runspine.embedded.home import Home
    from runspine.embedded.plan import PARTS, StackOptions
    from runspine.embedded.record import running_record

    place = Home.at(home)
    only = None if page else set(PARTS) - {"dashboard"}
    options = StackOptions(workers=workers, slots=slots, pools=_names(pools), only=only)
    running = running_record(place)
    if running is not None:
        return _echo_running(place.path, running, as_json)
    return _detached(place.path, options, as_json) if detach else _foreground(place.path, options, as_json)


@click.command()
@home_option
@json_option
def down(home: Path, as_json: bool) -> int:
    """Stop the stack and wait until all its processes have ended."""
    from runspine.cli.ui.screen import echo, echo_json
    from runspine.embedded.background import stop_running
    from runspine.embedded.home import Home

    place = Home.at(home)
    stopped = stop_running(place)
    if as_json:
        echo_json({"stopped": stopped is not None, "home": str(place.path)})
    elif stopped is None:
        echo(f"No stack is running in {place.path}.")
    else:
        echo(f"Stopped {', '.join(reversed(stopped.parts))}. The data is kept in {place.path}.")
    return OK


@click.command()
@home_option
@json_option
def status(home: Path, as_json: bool) -> int:
    """Show the parts of the stack and their health. Exit code 0: healthy, 1: unhealthy, 3: not running."""
    from runspine.cli.ui.screen import Cell, echo, echo_json, table
    from runspine.embedded.home import Home
    from runspine.embedded.inspection import inspect
    from runspine.embedded.record import running_record
    from runspine.text.values import span

    place = Home.at(home)
    record = running_record(place)
    if record is None:
        if as_json:
            echo_json({"running": False, "home": str(place.path), "parts": []})
        else:
            echo(f"No stack is running in {place.path}. Start one with: runspine up")
        return UNREACHABLE
    parts = inspect(record)
    healthy = record.ready and all(part.healthy for part in parts if part.awaited)
    if as_json:
        plain = [{**asdict(part), "healthy": part.healthy} for part in parts]
        echo_json({"running": True, "healthy": healthy, **_summary(place.path, record), "parts": plain})
    else:
        rows: list[list[Cell | str]] = [
            [
                part.name,
                Cell(part.state, "green" if part.state == "ready" else "yellow"),
                str(part.pid or "–"),
                span(part.uptime) if part.pid else "–",
                str(part.restarts),
                part.address,
                Cell(part.health, "green" if part.healthy else "red"),
            ]
            for part in parts
        ]
        headings = ("part", "state", "pid", "up", "restarts", "address", "health")
        table(headings, rows, right=("pid", "restarts"))
    return OK if healthy else FAILED


@click.command()
@home_option
@click.option("--live", is_flag=True, help="Check only the services of RUNSPINE_ADDRESS or of the home.")
@click.option(
    "--online",
    is_flag=True,
    help="Check only the way to W&B, the Hugging Face Hub and a package index, through the proxies set.",
)
@json_option
def doctor(home: Path, live: bool, online: bool, as_json: bool) -> int:
    """Check this machine and the running services. Exit code 1 when a check fails.

    --online sends one HEAD request each, without a key. Other addresses: WANDB_BASE_URL, HF_ENDPOINT,
    PIP_INDEX_URL. Proxies: WANDB_VPN_HTTPS_PROXY (W&B), HTTPS_PROXY, NO_PROXY.
    """
    from runspine.cli.ui.screen import echo, echo_json

    checks = []
    for check in _checks(home, live, online):
        checks.append(check)
        if not as_json:
            echo(f"{check.level:<5} {check.name:<17} {escaped(check.summary)}", COLOURS[check.level])
            if check.do:
                echo(f"{'':24}{check.do}", COLOURS[check.level])
    failed = any(check.level == "fail" for check in checks)
    if as_json:
        echo_json({"ok": not failed, "checks": [check.as_json() for check in checks]})
    return FAILED if failed else OK


def _checks(home: Path, live: bool, online: bool) -> Iterator[Check]:
    if online:
        from runspine.doctor.online import examine as examine_online

        yield from examine_online()
        if not live:
            return
    if not live:
        from runspine.doctor.machine import examine
        from runspine.embedded.home import Home

        yield from examine(Home.at(home))
    from runspine.rpc.endpoint import find_endpoint

    endpoint = find_endpoint({**os.environ, "RUNSPINE_HOME": str(home)})
    # An endpoint with patience belongs to a stack that is recorded as running.
    if live or endpoint.patience:
        from runspine.doctor.deployment import examine as examine_live
        from runspine.rpc.trainer_client import Client

        with Client(endpoint) as client:
            yield from examine_live(client)


def _foreground(home: Path, options: StackOptions, as_json: bool) -> int:
    from runspine.cli.ui.screen import echo_json
    from runspine.embedded.foreground import run_until_signal
    from runspine.embedded.home import Home
    from runspine.embedded.stack import Stack

    progress = StartProgress(as_json)

    def ready(stack: Stack) -> None:
        progress.close()
        if as_json:
            echo_json(_summary(home, stack.record))
        else:
            _echo_addresses(home, stack.record, "Ctrl-C stops everything.")

    try:
        run_until_signal(Home.at(home), options, progress.on_event, ready)
    finally:
        progress.close()
    return OK


def _detached(home: Path, options: StackOptions, as_json: bool) -> int:
    from runspine.cli.lookup.stack_workers import await_online
    from runspine.cli.ui.screen import echo_json
    from runspine.embedded.background import start_detached
    from runspine.embedded.home import Home

    progress = StartProgress(as_json)
    try:
        record = start_detached(Home.at(home), options, progress.on_event)
        await_online(home, record)
    finally:
        progress.close()
    if as_json:
        echo_json(_summary(home, record))
    else:
        _echo_addresses(home, record, "Running in the background; stop with: runspine down")
    return OK


class StartProgress:
    """Prints a line for each part that is ready, with a spinner in between."""

    def __init__(self, as_json: bool) -> None:
        from runspine.cli.ui.screen import console, is_live

        self._quiet = as_json
        self._console = console()
        self._spinner = self._console.status("starting") if is_live(as_json) else None
        if self._spinner:
            self._spinner.start()

    def on_event(self, event: PartEvent) -> None:
        if self._quiet:
            return
        match event.what:
            case "ready":
                self._line("✓", "green", event.part, event.detail)
            case "ended" | "unhealthy" | "unrecorded" | "abandoned":
                self._line("!", "yellow", event.part, f"{event.what}: {event.detail}")
            case "stopped":
                self._line("·", "dim", event.part, "stopped")
            case "starting" | "stopping" if self._spinner:
                self._spinner.update(f"{event.what} {event.part}")

    def close(self) -> None:
        if self._spinner:
            self._spinner.stop()

    def _line(self, mark: str, style: str, part: str, detail: str) -> None:
        from rich.text import Text

        if not self._console.encoding.startswith("utf"):
            mark = "*"
        self._console.print(Text.assemble((mark, style), f" {part:<14}", detail), soft_wrap=True)


def _echo_running(home: Path, record: StackRecord, as_json: bool) -> int:
    from runspine.cli.ui.screen import echo, echo_json

    if as_json:
        echo_json({**_summary(home, record), "already": True})
    else:
        word = "already running" if record.ready else "already starting"
        echo(f"{word.capitalize()} in {home} (pid {record.pid}): {', '.join(record.parts)}")
        _echo_addresses(home, record, "Stop it with: runspine down")
    return OK


def _echo_addresses(home: Path, record: StackRecord, how_to_stop: str) -> None:
    from runspine.cli.ui.screen import echo

    echo()
    if "orchestrator" in record.addresses:
        echo(f"  gRPC      {record.addresses['orchestrator']}  (token in {home / 'credentials.json'})")
    if "dashboard" in record.addresses:
        echo(f"  web page  http://{record.addresses['dashboard']}  (runspine web opens it, logged in)")
    echo(f"  data      {home}")
    echo(f"  logs      {home / 'logs'}")
    echo("  next      runspine status · runspine submit --help")
    echo()
    echo(how_to_stop)


def _summary(home: Path, record: StackRecord) -> dict[str, Any]:
    return {
        "home": str(home),
        "pid": record.pid,
        "ready": record.ready,
        "started_at": record.started_at,
        "addresses": record.addresses,
        "metrics": record.metrics,
    }


def _names(text: str) -> tuple[str, ...]:
    from runspine.eventlog.subjects import is_token

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or not all(is_token(name) for name in names):
        raise click.UsageError(f"--pools {text}: give at least one pool, with letters, digits, - and _")
    return names
