"""Streams as files of a backup: copied from the log, and appended to an empty log at the same sequences."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path

from runspine.backup.index import BackupIndex, Chunk
from runspine.backup.log_export import read_export, write_export
from runspine.backup.site import OpenSite
from runspine.backup.target import BackupTarget, Folder, fingerprint
from runspine.clock import now_micros
from runspine.errors import InvalidError, RefusedError, UnreachableError
from runspine.eventlog import Recorded
from runspine.eventlog.chain import digest_of
from runspine.eventlog.publisher import MESSAGE_ID, PublishRefusedError
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.subjects import TELEMETRY
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo

MAX_RECORDS = 20_000
MAX_BYTES = 32 << 20
EXPECTED_LAST = "Nats-Expected-Last-Sequence"
MAX_BATCH = 256
TIMEOUT_SECONDS = 30.0
_NAME = re.compile(r"(\d{20})-(\d{20})\.log\Z")


class StreamStalledError(UnreachableError):
    """The stream was trimmed during the copy, or NATS became unreachable."""


def chunks_in(folder: Folder, stream: str) -> list[Chunk]:
    """The files of a stream in the folder, contiguous from the first one on."""
    found: list[Chunk] = []
    for path in sorted((folder.path / "streams" / stream).glob("*.log")):
        match = _NAME.match(path.name)
        if match is None:
            continue
        first, last = int(match[1]), int(match[2])
        if found and first != found[-1].last + 1:
            break
        found.append(_chunk(folder, path, stream, first, last))
    return found


def _chunk(folder: Folder, path: Path, stream: str, first: int, last: int) -> Chunk:
    size, sha256 = fingerprint(path)
    return Chunk(str(path.relative_to(folder.path)), stream, first, last, size, sha256)


async def copy_stream(
    site: OpenSite, folder: Folder, stream: str, after: int, last: int
) -> AsyncGenerator[Chunk, None]:
    """Copy the records after a position up to another into files; each file is on disk when it is yielded."""
    gathered: list[LogRecord] = []
    size = 0
    if last <= after:
        return
    async with aclosing(site.log.follow(stream, after=after, live=False)) as records:
        while (found := await _next(stream, records)) is not None and found.sequence <= last:
            # A fact without a digest does not count, and must not by being restored.
            digest = digest_of(found.data) if stream == TELEMETRY else found.digest
            gathered.append(
                LogRecord(
                    stream=stream,
                    sequence=found.sequence,
                    subject=found.subject,
                    commit=found.data,
                    stored_at=found.stored_at,
                    digest=digest,
                )
            )
            size += len(found.data)
            if len(gathered) >= MAX_RECORDS or size >= MAX_BYTES:
                yield await asyncio.to_thread(_write, folder, stream, gathered)
                gathered, size = [], 0
    if gathered:
        yield await asyncio.to_thread(_write, folder, stream, gathered)


async def _next(stream: str, records: AsyncGenerator[Recorded, None]) -> Recorded | None:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await anext(records, None)
    except TimeoutError:
        raise StreamStalledError(f"{stream}: no record arrived for {TIMEOUT_SECONDS:g} s") from None


def _write(folder: Folder, stream: str, records: list[LogRecord]) -> Chunk:
    first, last = records[0].sequence, records[-1].sequence
    name = f"streams/{stream}/{first:020d}-{last:020d}.log"
    path = folder.path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_export(path, [StreamInfo(name=stream, last_sequence=last)], now_micros()) as put:
        for record in records:
            put(record)
    return _chunk(folder, path, stream, first, last)


def records_of(target: BackupTarget, index: BackupIndex, stream: str) -> Iterator[LogRecord]:
    """All records of a stream in a backup; each file is verified before it is read. Raises InvalidError."""
    for chunk in index.chunks_of(stream):
        with target.file(chunk.file) as path:
            if fingerprint(path) != (chunk.size, chunk.sha256):
                raise InvalidError(f"{target.name}: {chunk.file} was changed since the backup was made")
            _, records = read_export(path)
            yield from records


async def append_records(
    site: OpenSite, stream: str, records: Iterable[LogRecord], *, after: int
) -> AsyncGenerator[int, None]:
    """Append records to a stream that ends at `after`, each at its old sequence; yields the size of each
    batch.

    The server checks the sequence of each record, which detects other writers.
    """
    batch: list[LogRecord] = []
    for record in records:
        if record.sequence <= after:
            continue
        batch.append(record)
        if len(batch) == MAX_BATCH:
            await _put(site, stream, batch)
            yield len(batch)
            batch = []
    if batch:
        await _put(site, stream, batch)
        yield len(batch)


async def _put(site: OpenSite, stream: str, batch: list[LogRecord]) -> None:
    sent = []
    for record in batch:
        headers = {EXPECTED_LAST: str(record.sequence - 1)}
        if stream != TELEMETRY:
            # Not the id of the commit: a message that was rejected may be a copy of another.
            headers |= {MESSAGE_ID: f"restored-{record.sequence}", DIGEST: record.digest.hex()}
        sent.append((record, await site.publisher.start(record.subject, record.commit, headers)))
    answers = await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
    for record, answer in zip(batch, answers, strict=True):
        if isinstance(answer, PublishRefusedError):
            # The answer to the first try may have been lost with a connection; then the record is stored.
            await _check_stored(site, stream, record, answer)
        elif isinstance(answer, BaseException):
            raise answer


async def _check_stored(site: OpenSite, stream: str, record: LogRecord, error: PublishRefusedError) -> None:
    async with aclosing(site.log.follow(stream, after=record.sequence - 1, live=False)) as found:
        async for there in found:
            if (there.sequence, there.subject, there.data) == (
                record.sequence,
                record.subject,
                record.commit,
            ):
                return
            break
    raise RefusedError(
        f"{stream} {record.sequence} could not be restored ({error}): something else writes to this log. "
        "Stop every service, empty NATS and the bucket, and restore again"
    )
