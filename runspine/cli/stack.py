"""`runspine up`, `down`, `status` and `doctor`: the stack of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runspine.cli.edge import FAILED, OK, UNREACHABLE, json_option
from runspine.cli.text import escaped

if TYPE_CHECKING:
    from runspine.checkup import Check
    from runspine.embedded.keeper import Event
    from runspine.embedded.plan import Wish
    from runspine.embedded.record import StackRecord

COLOURS = {"ok": "green", "note": "dim", "warn": "yellow", "fail": "red"}

home_option = click.option(
    "--home",
    envvar="RUNSPINE_HOME",
    default="var",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the stack; RUNSPINE_HOME otherwise.",
)


@click.command()
@home_option
@click.option("--workers", type=click.IntRange(0, 64), default=1, show_default=True, help="How many workers.")
@click.option(
    "--slots", type=click.IntRange(1, 1024), help="Runs at once, for each worker [default: its cores]."
)
@click.option("--pools", default="default", show_default=True, help="Pools the workers serve, with commas.")
@click.option("--detach", is_flag=True, help="Start in the background and return when ready.")
@json_option
def up(home: Path, workers: int, slots: int | None, pools: str, detach: bool, as_json: bool) -> int:
    """Start NATS, S3 and all services on this machine; Ctrl-C stops them."""
    from runspine.embedded.home import Home
    from runspine.embedded.plan import Wish
    from runspine.embedded.record import running_record

    place = Home.at(home)
    wish = Wish(workers=workers, slots=slots, pools=_names(pools))
    running = running_record(place)
    if running is not None:
        return _say_running(place.path, running, as_json)
    return _detached(place.path, wish, as_json) if detach else _foreground(place.path, wish, as_json)


@click.command()
@home_option
@json_option
def down(home: Path, as_json: bool) -> int:
    """Stop the stack of this home and wait until nothing of it is left."""
    from runspine.cli.screen import say, say_json
    from runspine.embedded.background import stop_running
    from runspine.embedded.home import Home

    place = Home.at(home)
    stopped = stop_running(place)
    if as_json:
        say_json({"stopped": stopped is not None, "home": str(place.path)})
    elif stopped is None:
        say(f"Nothing runs in {place.path}.")
    else:
        say(f"Stopped {', '.join(reversed(stopped.parts))}. The data stays in {place.path}.")
    return OK


@click.command()
@home_option
@json_option
def status(home: Path, as_json: bool) -> int:
    """Show every part and its health. Exit code 0: all healthy, 1: not all, 3: not running."""
    from runspine.cli.screen import Cell, say, say_json, table
    from runspine.cli.text import span
    from runspine.embedded.home import Home
    from runspine.embedded.inspection import inspect
    from runspine.embedded.record import running_record

    place = Home.at(home)
    record = running_record(place)
    if record is None:
        if as_json:
            say_json({"running": False, "home": str(place.path), "parts": []})
        else:
            say(f"Nothing runs in {place.path}. Start it with: runspine up")
        return UNREACHABLE
    parts = inspect(record)
    healthy = record.ready and all(part.healthy for part in parts if part.awaited)
    if as_json:
        told = [{**asdict(part), "healthy": part.healthy} for part in parts]
        say_json({"running": True, "healthy": healthy, **_summary(place.path, record), "parts": told})
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
@click.option("--live", is_flag=True, help="Only the services that RUNSPINE_ADDRESS or the home names.")
@json_option
def doctor(home: Path, live: bool, as_json: bool) -> int:
    """Check this machine, and the services where they run. Exit code 1 when something must be mended."""
    from runspine.cli.screen import say, say_json

    checks = []
    for check in _checks(home, live):
        checks.append(check)
        if not as_json:
            say(f"{check.level:<5} {check.name:<17} {escaped(check.says)}", COLOURS[check.level])
            if check.do:
                say(f"{'':24}{check.do}", COLOURS[check.level])
    failed = any(check.level == "fail" for check in checks)
    if as_json:
        say_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    return FAILED if failed else OK


def _checks(home: Path, live: bool) -> Iterator[Check]:
    if not live:
        from runspine.embedded.doctor import examine
        from runspine.embedded.home import Home

        yield from examine(Home.at(home))
    from runspine.endpoint import find_endpoint

    endpoint = find_endpoint({**os.environ, "RUNSPINE_HOME": str(home)})
    # Patience is for what is said to run.
    if live or endpoint.patience:
        from runspine.checkup.deployment import examine as examine_live
        from runspine.client import Client

        with Client(endpoint) as client:
            yield from examine_live(client)


def _foreground(home: Path, wish: Wish, as_json: bool) -> int:
    from runspine.cli.screen import say_json
    from runspine.embedded.foreground import run_until_signal
    from runspine.embedded.home import Home
    from runspine.embedded.stack import Stack

    progress = Progress(as_json)

    def ready(stack: Stack) -> None:
        progress.close()
        if as_json:
            say_json(_summary(home, stack.record))
        else:
            _say_addresses(home, stack.record, "Ctrl-C stops everything.")

    try:
        run_until_signal(Home.at(home), wish, progress.hear, ready)
    finally:
        progress.close()
    return OK


def _detached(home: Path, wish: Wish, as_json: bool) -> int:
    from runspine.cli.screen import say_json
    from runspine.embedded.background import start_detached
    from runspine.embedded.home import Home

    progress = Progress(as_json)
    try:
        record = start_detached(Home.at(home), wish, progress.hear)
    finally:
        progress.close()
    if as_json:
        say_json(_summary(home, record))
    else:
        _say_addresses(home, record, "It runs in the background; stop it with: runspine down")
    return OK


class Progress:
    """A line for each part as it gets ready, and a spinner while waiting for the next."""

    def __init__(self, as_json: bool) -> None:
        from runspine.cli.screen import console, is_live

        self._quiet = as_json
        self._console = console()
        self._spinner = self._console.status("starting") if is_live(as_json) else None
        if self._spinner:
            self._spinner.start()

    def hear(self, event: Event) -> None:
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


def _say_running(home: Path, record: StackRecord, as_json: bool) -> int:
    from runspine.cli.screen import say, say_json

    if as_json:
        say_json({**_summary(home, record), "already": True})
    else:
        word = "already running" if record.ready else "already starting"
        say(f"{word.capitalize()} in {home} (pid {record.pid}): {', '.join(record.parts)}")
        _say_addresses(home, record, "Stop it with: runspine down")
    return OK


def _say_addresses(home: Path, record: StackRecord, how_to_stop: str) -> None:
    from runspine.cli.screen import say

    say()
    if "orchestrator" in record.addresses:
        say(f"  gRPC      {record.addresses['orchestrator']}  (token in {home / 'credentials.json'})")
    if "dashboard" in record.addresses:
        say(f"  web page  http://{record.addresses['dashboard']}  (runspine web opens it, logged in)")
    say(f"  data      {home}")
    say(f"  logs      {home / 'logs'}")
    say("  next      runspine status · runspine submit --help")
    say()
    say(how_to_stop)


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
    from runspine.log.subjects import is_token

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or not all(is_token(name) for name in names):
        raise click.UsageError(f"--pools {text}: name at least one, with letters, digits, - and _")
    return names
