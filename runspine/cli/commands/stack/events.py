"""`runspine events`: tail, verify and export the event log."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import click
from google.protobuf.message import DecodeError

from runspine.backup.log_export import write_export
from runspine.cli.commands.stack.prove import check_proof, prove
from runspine.cli.commands.stack.quarantine import quarantined, release
from runspine.cli.commands.stack.verify import verify
from runspine.cli.errors import json_option
from runspine.cli.lookup.run import run_id_of
from runspine.cli.ui.follow import echo_fact
from runspine.cli.ui.progress import progress_bar
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.clock import now_micros
from runspine.errors import InvalidError, RunspineError
from runspine.eventlog.subjects import (
    ATTEMPTS,
    FACT_STREAMS,
    RUNS,
    attempts_subject,
    run_subject,
)
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time, to_plain
from runspine.text.values import escaped
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo


@click.group()
def events() -> None:
    """Tail, verify and export the event log; list and end quarantines."""


events.add_command(quarantined)
events.add_command(release)
events.add_command(verify)
events.add_command(prove)
events.add_command(check_proof)


@events.command()
@click.argument("stream", required=False, type=click.Choice(FACT_STREAMS, case_sensitive=False))
@click.option("--run", help="All commits of this run.")
@click.option("-f", "--follow", is_flag=True, help="Follow new commits.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Newest commits of each stream.",
)
@json_option
def tail(stream: str | None, run: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Show the newest commits, or all commits of a run."""
    with Client() as client:
        sources = _sources(client, stream, run, lines)
        try:
            for record in _merged(client, sources, follow):
                _show(record, as_json)
        except KeyboardInterrupt:
            return


Source = tuple[str, str, int]


def _sources(client: Client, stream: str | None, run: str | None, lines: int) -> list[Source]:
    """Stream, subject and start position of each source."""
    wanted = [stream.upper()] if stream else list(FACT_STREAMS)
    if run:
        run_id = run_id_of(client, run)
        subjects = {RUNS: run_subject(run_id), ATTEMPTS: attempts_subject(run_id)}
        return [(name, subjects.get(name, f"{name.lower()}.{run_id}"), 0) for name in wanted]
    ends = {info.name: info.last_sequence for info in client.describe_log()}
    return [(name, "", max(0, ends.get(name, 0) - lines)) for name in wanted]


def _merged(client: Client, sources: list[Source], follow: bool) -> Iterator[LogRecord]:
    """Yield stored records in order of time, then live ones."""
    found: list[LogRecord] = []
    ends = []
    for stream, subject, after in sources:
        for record in client.read_log(stream, after=after, subject=subject):
            found.append(record)
            after = record.sequence
        ends.append((stream, subject, after))
    yield from sorted(found, key=lambda record: (record.stored_at, record.stream, record.sequence))
    if follow:
        yield from _live(client, ends)


def _live(client: Client, sources: list[Source]) -> Iterator[LogRecord]:
    arrived: queue.Queue[LogRecord | RunspineError] = queue.Queue(maxsize=1000)

    def pump(stream: str, subject: str, after: int) -> None:
        try:
            for record in client.read_log(stream, after=after, subject=subject, follow=True):
                arrived.put(record)
        except RunspineError as error:
            arrived.put(error)

    for source in sources:
        threading.Thread(target=pump, args=source, daemon=True).start()
    while True:
        item = arrived.get()
        if isinstance(item, RunspineError):
            raise item
        yield item


def _show(record: LogRecord, as_json: bool) -> None:
    place = {"stream": record.stream, "sequence": record.sequence, "subject": record.subject}
    try:
        commit = Commit.FromString(record.commit)
    except DecodeError:
        _show_unreadable(record, place, as_json)
        return
    if as_json:
        echo_json({**place, "stored_at": iso_time(record.stored_at), "commit": to_plain(commit)})
        return
    for fact in commit.facts:
        echo_fact(fact, f"{record.stream} {record.sequence}  {escaped(record.subject)}")


def _show_unreadable(record: LogRecord, place: dict[str, object], as_json: bool) -> None:
    if as_json:
        stored_at = iso_time(record.stored_at)
        echo_json({**place, "stored_at": stored_at, "commit": None, "bytes": record.commit.hex()})
        return
    where = f"{record.stream} {record.sequence}  {escaped(record.subject)}"
    echo(f"{where}  not a commit: {len(record.commit)} bytes {record.commit[:16].hex()}", "red")


@events.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def export(file: Path, as_json: bool) -> None:
    """Export all facts to FILE, atomically."""
    if not file.parent.is_dir():
        raise InvalidError(f"{file.parent} is not a folder")
    count = 0
    with Client() as client:
        streams = [info for info in client.describe_log() if info.name in FACT_STREAMS]
        with (
            progress_bar("exporting", sum(info.last_sequence for info in streams), as_json) as advance,
            write_export(file, streams, now_micros()) as put,
        ):
            for info in streams:
                # Commits appended since then belong to the next export.
                for record in _until(client, info):
                    put(record)
                    count += 1
                    advance(1)
    size = file.stat().st_size
    if as_json:
        echo_json({"file": str(file), "commits": count, "bytes": size})
    else:
        note(
            f"{count:,} commits in {file} ({size:,} bytes); "
            f"verify it with: runspine events verify --file {file}"
        )


def _until(client: Client, info: StreamInfo) -> Iterator[LogRecord]:
    for record in client.read_log(info.name):
        if record.sequence > info.last_sequence:
            return
        yield record
