"""A log that `runspine events export` wrote, also of an older release, seen as a backup of facts alone."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runspine.backup.index import Chunk, Index
from runspine.backup.shelf import Folder, fingerprint
from runspine.cli.exportfile import reading, writing
from runspine.errors import Invalid
from runspine.log.subjects import FACT_STREAMS
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo


@contextlib.contextmanager
def as_backup(path: Path) -> Iterator[Folder]:
    """A folder for as long as the block takes. Raises Invalid."""
    with tempfile.TemporaryDirectory(prefix="runspine-") as scratch:
        folder = Folder(Path(scratch))
        folder.name = str(path)
        streams, records = reading(path)
        found: dict[str, list[LogRecord]] = {}
        for record in records:
            found.setdefault(record.stream, []).append(record)
        if unknown := found.keys() - set(FACT_STREAMS):
            raise Invalid(f"{path}: records of the unknown stream {min(unknown)}")
        chunks = tuple(_write(folder, stream, records) for stream, records in found.items())
        facts = {info.name: info.last_sequence for info in streams}
        folder.finish(Index(0, "", facts, 1, 0, chunks, ()))
        yield folder


def _write(folder: Folder, stream: str, records: list[LogRecord]) -> Chunk:
    path = folder.place(f"{stream}.log")
    first, last = records[0].sequence, records[-1].sequence
    with writing(path, [StreamInfo(name=stream, last_sequence=last)], 0) as put:
        for record in records:
            put(record)
    return Chunk(path.name, stream, first, last, *fingerprint(path))
