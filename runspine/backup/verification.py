"""Verifies a backup: every file exists and is unchanged, and the facts form an unbroken chain."""

from __future__ import annotations

from collections.abc import Iterator

from runspine.backup.creation import ReportProgress
from runspine.backup.index import BackupIndex
from runspine.backup.streams import records_of
from runspine.backup.target import OBJECTS, BackupTarget, fingerprint
from runspine.errors import InvalidError
from runspine.eventlog.chain import ChainVerifier, digest_of
from runspine.eventlog.subjects import TELEMETRY


def fact_problems(target: BackupTarget, index: BackupIndex, report: ReportProgress) -> list[str]:
    """Problems of the facts, and of the telemetry that is not archived yet."""
    problems: list[str] = []
    for stream, last in index.facts.items():
        verifier = ChainVerifier(stream)
        try:
            for record in records_of(target, index, stream):
                verifier.feed(record.sequence, record.subject, record.commit, record.digest)
                report(f"verifying {stream}", verifier.commits, last)
        except InvalidError as error:
            problems.append(str(error))
        problems += [str(problem) for problem in verifier.finish(last)]
    return problems + list(_tail_problems(target, index))


def _tail_problems(target: BackupTarget, index: BackupIndex) -> Iterator[str]:
    expected = index.tail_first
    try:
        for record in records_of(target, index, TELEMETRY):
            if record.sequence != expected:
                yield f"{TELEMETRY} {expected} is missing"
            if digest_of(record.commit) != record.digest:
                yield f"{TELEMETRY} {record.sequence} was changed"
            expected = record.sequence + 1
    except InvalidError as error:
        yield str(error)


def object_problems(target: BackupTarget, index: BackupIndex, report: ReportProgress) -> list[str]:
    problems, done, total = [], 0, sum(kept.size for kept in index.objects)
    for kept in index.objects:
        try:
            with target.file(f"{OBJECTS}/{kept.key}") as path:
                if fingerprint(path) != (kept.size, kept.sha256):
                    problems.append(f"{kept.key} was changed since the backup was made")
        except InvalidError as error:
            problems.append(str(error))
        done += kept.size
        report("verifying objects", done, total)
    return problems
