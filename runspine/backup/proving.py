"""Proving a backup: every file there and unchanged, the facts an unbroken chain."""

from __future__ import annotations

from collections.abc import Iterator

from runspine.backup.index import Index
from runspine.backup.saving import Tell
from runspine.backup.shelf import OBJECTS, Shelf, fingerprint
from runspine.backup.streams import records_of
from runspine.errors import Invalid
from runspine.log.chain import Verifier, digest_of
from runspine.log.subjects import TELEMETRY


def fact_flaws(shelf: Shelf, index: Index, tell: Tell) -> list[str]:
    """What is wrong with the facts, and with the telemetry that is not archived yet."""
    flaws: list[str] = []
    for stream, last in index.facts.items():
        verifier = Verifier(stream)
        try:
            for record in records_of(shelf, index, stream):
                verifier.feed(record.sequence, record.subject, record.commit, record.digest)
                tell(f"proving {stream}", verifier.commits, last)
        except Invalid as error:
            flaws.append(str(error))
        flaws += [str(flaw) for flaw in verifier.finish(last)]
    return flaws + list(_tail_flaws(shelf, index))


def _tail_flaws(shelf: Shelf, index: Index) -> Iterator[str]:
    expected = index.tail_first
    try:
        for record in records_of(shelf, index, TELEMETRY):
            if record.sequence != expected:
                yield f"{TELEMETRY} {expected} is missing"
            if digest_of(record.commit) != record.digest:
                yield f"{TELEMETRY} {record.sequence} was changed"
            expected = record.sequence + 1
    except Invalid as error:
        yield str(error)


def object_flaws(shelf: Shelf, index: Index, tell: Tell) -> list[str]:
    flaws, done, total = [], 0, sum(kept.size for kept in index.objects)
    for kept in index.objects:
        try:
            with shelf.file(f"{OBJECTS}/{kept.key}") as path:
                if fingerprint(path) != (kept.size, kept.sha256):
                    flaws.append(f"{kept.key} was changed since the backup was made")
        except Invalid as error:
            flaws.append(str(error))
        done += kept.size
        tell("proving objects", done, total)
    return flaws
