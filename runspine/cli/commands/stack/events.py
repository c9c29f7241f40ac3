"""`runspine events`: tail, verify and export the event log."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from google.protobuf.message import DecodeError

from runspine.backup.log_export import LogExportDamagedError, read_export, write_export
from runspine.cli.commands.stack.quarantine import quarantined, release
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.log_root import trusted_keyring
from runspine.cli.lookup.run import run_id_of
from runspine.cli.ui.follow import echo_fact
from runspine.cli.ui.screen import console, echo, echo_json, is_live, note
from runspine.clock import now_micros
from runspine.errors import InvalidError, RunspineError
from runspine.eventlog.chain import ChainProblem, ChainVerifier
from runspine.eventlog.port import Recorded
from runspine.eventlog.subjects import (
    ATTEMPTS,
    FACT_STREAMS,
    RUNS,
    SIGNERS,
    attempts_subject,
    run_subject,
)
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time, to_plain
from runspine.text.values import escaped
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo

if TYPE_CHECKING:
    from runspine.eventlog.signing import Keyring


@click.group()
def events() -> None:
    """Tail, verify and export the event log; list and end quarantines."""


events.add_command(quarantined)
events.add_command(release)


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
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="Verify an exported file instead of the running log.",
)
@json_option
@click.pass_context
def verify(ctx: click.Context, path: Path | None, as_json: bool) -> None:
    """Verify that no commit is missing or changed, by the hash chain of each stream."""
    damage = ""
    if path is not None:
        streams, records = read_export(path)
        _, again = read_export(path)
        verifiers, damage = _walk(streams, records, as_json, _keyring(again))
    else:
        with Client() as client:
            streams = [info for info in client.describe_log() if info.name in FACT_STREAMS]
            everything = (r for info in streams for r in client.read_log(info.name))
            keys = client.read_log(RUNS, subject=f"{SIGNERS}*")
            verifiers, damage = _walk(streams, everything, as_json, _keyring(keys))
    problems = [problem for verifier in verifiers.values() for problem in verifier.problems]
    _echo_verdict(verifiers, problems, damage, as_json)
    ctx.exit(FAILED if problems or damage else OK)


def _keyring(records: Iterable[LogRecord]) -> Keyring | None:
    """The keys that the log introduces under a trusted root; None where no root is known."""
    keyring = trusted_keyring()
    if keyring is None:
        return None
    with contextlib.suppress(LogExportDamagedError):
        for each in records:
            if each.subject.startswith(SIGNERS):
                keyring.feed(Recorded(each.stream, each.sequence, each.subject, each.commit, each.digest, 0))
    return keyring


def _walk(
    streams: Iterable[StreamInfo], records: Iterable[LogRecord], as_json: bool, keyring: Keyring | None
) -> tuple[dict[str, ChainVerifier], str]:
    streams = list(streams)
    verifiers = {info.name: _verifier(info, keyring) for info in streams}
    damage = ""
    with _bar("verifying", sum(info.last_sequence for info in streams), as_json) as advance:
        try:
            for record in records:
                if record.stream not in verifiers:
                    raise InvalidError(f"a record of the unknown stream {escaped(record.stream)}")
                verifiers[record.stream].feed(record.sequence, record.subject, record.commit, record.digest)
                advance(1)
        except LogExportDamagedError as error:
            damage = str(error)
    for info in streams:
        verifiers[info.name].finish(info.last_sequence)
    return verifiers, damage


def _verifier(info: StreamInfo, keyring: Keyring | None) -> ChainVerifier:
    witness = info.witness
    witnesses = {witness.sequence: witness.digest} if witness.sequence else {}
    return ChainVerifier(info.name, witnesses=witnesses, authors=keyring)


def _echo_verdict(
    verifiers: dict[str, ChainVerifier], problems: list[ChainProblem], damage: str, as_json: bool
) -> None:
    if as_json:
        echo_json(
            {
                "whole": not problems and not damage,
                "streams": {
                    name: {
                        "commits": v.commits,
                        "last_sequence": v.sequence,
                        "signed": v.signed,
                        "unsigned": v.unsigned,
                    }
                    for name, v in verifiers.items()
                },
                "flaws": [
                    {"stream": f.stream, "sequence": f.sequence, "subject": f.subject, "what": f.what}
                    for f in problems
                ],
                "released": sum(len(v.released) for v in verifiers.values()),
                "damage": damage or None,
            }
        )
        return
    for name, verifier in verifiers.items():
        mark = "whole" if not verifier.problems else "NOT WHOLE"
        subjects = f"{len(verifier.heads):,} subjects"
        echo(
            f"{name:<10} {verifier.commits:>10,} commits  {subjects:<16} {mark}",
            "red" if verifier.problems else "green",
        )
    _echo_signatures(verifiers)
    for problem in problems:
        echo(f"problem: {escaped(str(problem))}", "red")
    for problem in (each for verifier in verifiers.values() for each in verifier.released):
        echo(f"released by an operator: {escaped(str(problem))}", "yellow")
    if damage:
        echo(f"problem: {escaped(damage)}", "red")


def _echo_signatures(verifiers: dict[str, ChainVerifier]) -> None:
    signed = sum(each.signed for each in verifiers.values())
    unsigned = sum(each.unsigned for each in verifiers.values())
    if signed and all(each.authors is None for each in verifiers.values()):
        echo(f"{signed:,} signatures were not verified: set RUNSPINE_LOG_ROOT to the root key", "yellow")
    elif signed:
        echo(f"{signed:,} commits are signed, {unsigned:,} are from before signing began")
    elif unsigned:
        echo(f"no commit is signed: {unsigned:,} are from before signing began")


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
            _bar("exporting", sum(info.last_sequence for info in streams), as_json) as advance,
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


@contextmanager
def _bar(title: str, total: int, as_json: bool) -> Iterator[Callable[[int], object]]:
    if not is_live(as_json):
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=total)
    with bar:
        yield lambda count: bar.advance(task, count)
