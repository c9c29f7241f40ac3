"""A file of `runspine events export`, also of an older release, as a backup that holds only facts."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runspine.backup.index import BackupIndex, Chunk
from runspine.backup.log_export import read_export, write_export
from runspine.backup.target import Folder, fingerprint
from runspine.errors import InvalidError
from runspine.eventlog.subjects import FACT_STREAMS
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo


@contextlib.contextmanager
def as_backup(path: Path) -> Iterator[Folder]:
    """A backup folder for the duration of the block. Raises InvalidError."""
    with tempfile.TemporaryDirectory(prefix="runspine-") as scratch:
        folder = Folder(Path(scratch))
        folder.name = str(path)
        streams, records = read_export(path)
        found: dict[str, list[LogRecord]] = {}
        for record in records:
            found.setdefault(record.stream, []).append(record)
        if unknown := found.keys() - set(FACT_STREAMS):
            raise InvalidError(f"{path}: records of the unknown stream {min(unknown)}")
        chunks = tuple(_write(folder, stream, records) for stream, records in found.items())
        facts = {info.name: info.last_sequence for info in streams}
        folder.finish(BackupIndex(0, "", facts, 1, 0, chunks, ()))
        yield folder


def _write(folder: Folder, stream: str, records: list[LogRecord]) -> Chunk:
    path = folder.path_of(f"{stream}.log")
    first, last = records[0].sequence, records[-1].sequence
    with write_export(path, [StreamInfo(name=stream, last_sequence=last)], 0) as put:
        for record in records:
            put(record)
    return Chunk(path.name, stream, first, last, *fingerprint(path))
