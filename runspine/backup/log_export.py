"""The export of a log: gzip over length-delimited LogRecords, the first of them a header.

The header's stream is `runspine-export-1` and its commit is JSON: when it was made, and how far
each stream reached, so that a truncated file can be recognised.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError

from runspine.errors import InvalidError
from runspine.wire.v1.run_pb2 import Cursor
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo

FORMAT = "runspine-export-1"
# No commit is nearly as large; a larger length means damage.
MAX_RECORD = 64 << 20


class LogExportDamagedError(InvalidError):
    """The file cannot be read to its end."""


@contextlib.contextmanager
def write_export(path: Path, streams: Sequence[StreamInfo], at: int) -> Iterator[Callable[[LogRecord], None]]:
    """Write records to a file, atomically."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as file:
                _put(file, _header(streams, at))
                yield lambda record: _put(file, record)
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_export(path: Path) -> tuple[list[StreamInfo], Iterator[LogRecord]]:
    """The extent of the streams, and the records. Raises LogExportDamagedError where the file is damaged."""
    try:
        file = gzip.open(path, "rb")  # noqa: SIM115 - closed by the generator that reads it
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror or error}") from error
    records = _records(path, file)
    try:
        header = next(records, None)
    except LogExportDamagedError:
        header = None
    if header is None or header.stream != FORMAT:
        records.close()
        raise InvalidError(f"{path}: not an export of a Runspine log")
    return _described(path, header), records


def _records(path: Path, file: BinaryIO | gzip.GzipFile) -> Generator[LogRecord, None, None]:
    count = 0
    with file:
        while True:
            try:
                data = _take(file)
                if data is None:
                    return
                record = LogRecord.FromString(data)
            except (EOFError, gzip.BadGzipFile, zlib.error, DecodeError) as error:
                raise LogExportDamagedError(f"{path}: damaged after record {count}: {error}") from error
            count += 1
            yield record


def _header(streams: Sequence[StreamInfo], at: int) -> LogRecord:
    known = [
        {
            "name": info.name,
            "last_sequence": info.last_sequence,
            "witness": {"sequence": info.witness.sequence, "digest": info.witness.digest.hex()},
        }
        for info in streams
    ]
    return LogRecord(stream=FORMAT, commit=json.dumps({"streams": known}).encode(), stored_at=at)


def _described(path: Path, header: LogRecord) -> list[StreamInfo]:
    try:
        known: list[dict[str, Any]] = json.loads(header.commit)["streams"]
        return [
            StreamInfo(
                name=stream["name"],
                last_sequence=stream["last_sequence"],
                witness=Cursor(
                    sequence=stream["witness"]["sequence"], digest=bytes.fromhex(stream["witness"]["digest"])
                ),
            )
            for stream in known
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise LogExportDamagedError(f"{path}: its header cannot be read: {error}") from error


def _put(file: BinaryIO | gzip.GzipFile, record: LogRecord) -> None:
    data = record.SerializeToString()
    size = len(data)
    prefix = bytearray()
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    prefix.append(size)
    file.write(bytes(prefix) + data)


def _take(file: BinaryIO | gzip.GzipFile) -> bytes | None:
    size = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            if shift:
                raise EOFError("the file ends within a record")
            return None
        size |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            break
        if shift > 28:
            raise DecodeError("a record's length cannot be read")
    if size > MAX_RECORD:
        raise DecodeError(f"a record of {size} bytes")
    data = file.read(size)
    if len(data) < size:
        raise EOFError("the file ends within a record")
    return data
