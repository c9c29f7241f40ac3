"""`runspine events verify`: whether the log is whole, by its chains, signatures and witnesses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from runspine.anchors.comparison import Coverage, WitnessComparison
from runspine.anchors.witnesses import WitnessSource
from runspine.backup.log_export import LogExportDamagedError, read_export
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.log_root import trusted_keyring
from runspine.cli.lookup.witnesses import series_option, witness_option, witness_sources
from runspine.cli.ui.progress import progress_bar
from runspine.cli.ui.screen import echo, echo_json
from runspine.errors import InvalidError
from runspine.eventlog.chain import ChainProblem, ChainVerifier
from runspine.eventlog.chain_walk import ChainWalk, KeyMessages, processes_for
from runspine.eventlog.port import Recorded
from runspine.eventlog.subjects import FACT_STREAMS, RUNS, SIGNERS
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time
from runspine.text.values import escaped
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a walk over the log has found."""

    verifiers: dict[str, ChainVerifier]
    # Subjects by stream.
    subjects: dict[str, int]
    damage: str
    seconds: float
    processes: int
    # What each source witnesses, by stream; and the sources that could not be read.
    witnessed: dict[str, list[Coverage]]
    unread: list[str]

    @property
    def problems(self) -> list[ChainProblem]:
        return [problem for verifier in self.verifiers.values() for problem in verifier.problems]

    @property
    def whole(self) -> bool:
        return not self.problems and not self.damage

    @property
    def commits(self) -> int:
        return sum(each.commits for each in self.verifiers.values())

    @property
    def rate(self) -> float:
        return self.commits / self.seconds if self.seconds else 0.0


@click.command()
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="Verify an exported file instead of the running log.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    help="Processes that verify.  [default: 1 for each core, or 1 for a short log]",
)
@witness_option
@series_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    path: Path | None,
    processes: int | None,
    files: tuple[Path, ...],
    series: str,
    as_json: bool,
) -> None:
    """Verify that no commit is missing or changed.

    By the hash chain of each subject, the signatures, and the witnesses in S3 and in files.
    """
    sources, unread = witness_sources(files, series, stored=path is None)
    if path is not None:
        streams, records = read_export(path)
        _, again = read_export(path)
        verdict = _walk(streams, records, as_json, _keys(again), processes, sources, unread, copy=True)
    else:
        with Client() as client:
            streams = [info for info in client.describe_log() if info.name in FACT_STREAMS]
            everything = _up_to_now(client, streams)
            keys = client.read_log(RUNS, subject=f"{SIGNERS}*")
            verdict = _walk(streams, everything, as_json, _keys(keys), processes, sources, unread)
    _echo_verdict(verdict, as_json)
    ctx.exit(OK if verdict.whole else FAILED)


def _up_to_now(client: Client, streams: Iterable[StreamInfo]) -> Iterator[LogRecord]:
    for info in streams:
        yield from client.read_log(info.name)


def _keys(records: Iterable[LogRecord]) -> KeyMessages | None:
    """The keys that the log introduces under a trusted root; None where no root is known."""
    keyring = trusted_keyring()
    if keyring is None:
        return None
    messages = []
    with contextlib.suppress(LogExportDamagedError):
        for each in records:
            if each.subject.startswith(SIGNERS):
                messages.append((each.sequence, each.subject, each.commit))
    return KeyMessages([key.public_bytes_raw() for key in keyring.roots.values()], messages)


def _walk(
    streams: Sequence[StreamInfo],
    records: Iterable[LogRecord],
    as_json: bool,
    keys: KeyMessages | None,
    processes: int | None,
    sources: Sequence[WitnessSource],
    unread: list[str],
    *,
    copy: bool = False,
) -> Verdict:
    total = sum(info.last_sequence for info in streams)
    processes = processes or processes_for(total)
    began, damage = time.monotonic(), ""
    keyring = keys.keyring() if keys is not None else None
    compared = {info.name: WitnessComparison(info.name, keyring, sources, copy=copy) for info in streams}
    walk = ChainWalk([_verifier(info) for info in streams], keys, processes)
    try:
        with progress_bar("verifying", total, as_json) as advance:
            try:
                for record in records:
                    recorded = _recorded(record, walk)
                    walk.feed(recorded)
                    if recorded.stream in compared:
                        compared[recorded.stream].feed(recorded)
                    advance(1)
            except LogExportDamagedError as error:
                damage = str(error)
            walk.finish()
    finally:
        walk.stop()
    for info in streams:
        walk.verifiers[info.name].finish(info.last_sequence)
    witnessed = {name: _compare(comparison, walk.verifiers[name]) for name, comparison in compared.items()}
    seconds = time.monotonic() - began
    return Verdict(walk.verifiers, walk.subjects, damage, seconds, processes, witnessed, unread)


def _compare(comparison: WitnessComparison, verifier: ChainVerifier) -> list[Coverage]:
    """Compare a stream with its witnesses; problems are added to those of its verifier."""
    found = []
    for coverage, problems in comparison.check():
        found.append(coverage)
        verifier.problems += [each for each in problems if each not in verifier.problems]
    comparison.close()
    return found


def _recorded(record: LogRecord, walk: ChainWalk) -> Recorded:
    if record.stream not in walk.verifiers:
        raise InvalidError(f"a record of the unknown stream {escaped(record.stream)}")
    return Recorded(
        record.stream, record.sequence, record.subject, record.commit, record.digest, record.stored_at
    )


def _verifier(info: StreamInfo) -> ChainVerifier:
    witness = info.witness
    return ChainVerifier(info.name, witnesses={witness.sequence: witness.digest} if witness.sequence else {})


def _echo_verdict(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        echo_json(_plain(verdict))
        return
    for name, verifier in verdict.verifiers.items():
        mark = "whole" if not verifier.problems else "NOT WHOLE"
        subjects = f"{verdict.subjects[name]:,} subjects"
        echo(
            f"{name:<10} {verifier.commits:>10,} commits  {subjects:<16} {mark}",
            "red" if verifier.problems else "green",
        )
    _echo_signatures(verdict)
    _echo_witnesses(verdict)
    for problem in verdict.problems:
        echo(f"problem: {escaped(str(problem))}", "red")
    for problem in (each for verifier in verdict.verifiers.values() for each in verifier.released):
        echo(f"released by an operator: {escaped(str(problem))}", "yellow")
    if verdict.damage:
        echo(f"problem: {escaped(verdict.damage)}", "red")
    how = f"{verdict.processes} processes" if verdict.processes > 1 else "one process"
    echo(f"verified in {verdict.seconds:.1f} s by {how}: {verdict.rate:,.0f} commits/s")


def _plain(verdict: Verdict) -> dict[str, object]:
    return {
        "whole": verdict.whole,
        "streams": {
            name: {
                "commits": each.commits,
                "last_sequence": each.sequence,
                "signed": each.signed,
                "unsigned": each.unsigned,
            }
            for name, each in verdict.verifiers.items()
        },
        "flaws": [
            {"stream": f.stream, "sequence": f.sequence, "subject": f.subject, "what": f.what}
            for f in verdict.problems
        ],
        "released": sum(len(each.released) for each in verdict.verifiers.values()),
        "damage": verdict.damage or None,
        "seconds": round(verdict.seconds, 3),
        "processes": verdict.processes,
        "witnesses": {
            name: [
                {"source": each.source, "position": each.size, "at": _time(each), "signed": each.signed}
                for each in found
            ]
            for name, found in verdict.witnessed.items()
        },
        "unread": verdict.unread,
    }


def _time(coverage: Coverage) -> str | None:
    return iso_time(coverage.at) if coverage.at else None


def _echo_witnesses(verdict: Verdict) -> None:
    for name, found in verdict.witnessed.items():
        for each in found:
            if not each.size:
                echo(f"{name} is not witnessed by {each.source}", "yellow")
                continue
            after = max(0, verdict.verifiers[name].sequence - each.size)
            rest = f"; {after:,} after it by their chains alone" if after else ""
            mark = "" if each.signed else " (not signed)"
            echo(f"{name} is witnessed up to {each.size:,} at {_time(each)} by {each.source}{mark}{rest}")
    for why in verdict.unread:
        echo(f"witnesses were not read: {escaped(why)}", "yellow")


def _echo_signatures(verdict: Verdict) -> None:
    verifiers = verdict.verifiers.values()
    signed = sum(each.signed for each in verifiers)
    unsigned = sum(each.unsigned for each in verifiers)
    if signed and trusted_keyring() is None:
        echo(f"{signed:,} signatures were not verified: set RUNSPINE_LOG_ROOT to the root key", "yellow")
    elif signed:
        echo(f"{signed:,} commits are signed, {unsigned:,} are from before signing began")
    elif unsigned:
        echo(f"no commit is signed: {unsigned:,} are from before signing began")
