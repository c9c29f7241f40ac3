"""`runspine logs`: output of a run's trainer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import clock, without_colour
from runspine.wire.v1.telemetry_pb2 import LogLine, LogSource

Line = tuple[int, LogLine]


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Follow new lines until the run's logs end.")
@click.option("--tail", type=click.IntRange(0), help="Only the last N lines.")
@click.option("--attempt", type=click.IntRange(1), help="Only this attempt.")
@click.option("--grep", metavar="REGEX", help="Only lines that match.")
@click.option("--times", is_flag=True, help="Show timestamps.")
@json_option
def logs(
    run: str,
    follow: bool,
    tail: int | None,
    attempt: int | None,
    grep: str | None,
    times: bool,
    as_json: bool,
) -> None:
    """Print the output of a run's trainer; stderr and lines of the worker are coloured."""
    pattern = _pattern(grep)
    with Client() as client:
        reader = _Reader(client, run_id_of(client, run), attempt, pattern)
        if tail is not None:
            for line in deque(reader.lines(follow=False), maxlen=tail):
                _show(line, times, as_json)
        try:
            if follow or tail is None:
                for line in reader.lines(follow=follow):
                    _show(line, times, as_json)
        except KeyboardInterrupt:
            return


class _Reader:
    """Reads log lines from a position on and applies the filters."""

    def __init__(
        self, client: Client, run_id: str, attempt: int | None, pattern: re.Pattern[str] | None
    ) -> None:
        self.client = client
        self.run_id = run_id
        self.attempt = attempt
        self.pattern = pattern
        self.position = 0

    def lines(self, *, follow: bool) -> Iterator[Line]:
        stream = self.client.logs(self.run_id, after=self.position, follow=follow, on_wait=_note_wait)
        for message in stream:
            self.position = max(self.position, message.position)
            if self.attempt is not None and message.attempt != self.attempt:
                continue
            for line in message.lines:
                if line.source in (LogSource.MIND, LogSource.TURN):
                    continue  # not output: `runspine mind` and `runspine turns` show it
                if self.pattern is None or self.pattern.search(line.text):
                    yield message.attempt, line


def _show(line: Line, times: bool, as_json: bool) -> None:
    attempt, entry = line
    if as_json:
        echo_json({"attempt": attempt, **to_plain(entry)})
        return
    style = {LogSource.STDERR: "yellow", LogSource.WORKER: "cyan"}.get(entry.source, "")
    prefix = "[worker] " if entry.source == LogSource.WORKER else ""
    echo(f"{clock(entry.at) + '  ' if times else ''}{prefix}{without_colour(entry.text)}", style)


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    if grep is None:
        return None
    try:
        return re.compile(grep)
    except re.error as error:
        raise click.UsageError(f"--grep {grep}: not a regular expression: {error}") from error


def _note_wait(waited: float) -> None:
    note(f"telemetry service unreachable; waiting ({waited:.0f} s)")
