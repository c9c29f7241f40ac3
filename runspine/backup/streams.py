"""Pieces of streams in files: copied from the log, and put onto an empty one in the same places."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path

from runspine.backup.index import Chunk, Index
from runspine.backup.shelf import Folder, Shelf, fingerprint
from runspine.backup.site import Open
from runspine.cli.exportfile import reading, writing
from runspine.errors import Invalid, Refused, Unreachable
from runspine.log import Recorded
from runspine.log.chain import digest_of
from runspine.log.jetstream import DIGEST
from runspine.log.publisher import MESSAGE_ID
from runspine.log.publisher import Refused as NotTaken
from runspine.log.subjects import TELEMETRY
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo

RECORDS = 20_000
BYTES = 32 << 20
EXPECTED_LAST = "Nats-Expected-Last-Sequence"
AT_ONCE = 256
PATIENCE = 30.0
_NAME = re.compile(r"(\d{20})-(\d{20})\.log\Z")


class Stalled(Unreachable):
    """The stream was trimmed under us, or NATS went away."""


def chunks_in(folder: Folder, stream: str) -> list[Chunk]:
    """The pieces of a stream that are there, unbroken from the first one on."""
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
    site: Open, folder: Folder, stream: str, after: int, last: int
) -> AsyncGenerator[Chunk, None]:
    """Write what lies behind a position, up to another, piece by piece; each is on disk when it is told."""
    gathered: list[LogRecord] = []
    size = 0
    if last <= after:
        return
    async with aclosing(site.log.follow(stream, after=after, live=False)) as records:
        while (found := await _next(stream, records)) is not None and found.sequence <= last:
            digest = found.digest or digest_of(found.data)
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
            if len(gathered) >= RECORDS or size >= BYTES:
                yield await asyncio.to_thread(_write, folder, stream, gathered)
                gathered, size = [], 0
    if gathered:
        yield await asyncio.to_thread(_write, folder, stream, gathered)


async def _next(stream: str, records: AsyncGenerator[Recorded, None]) -> Recorded | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await anext(records, None)
    except TimeoutError:
        raise Stalled(f"{stream}: nothing came for {PATIENCE:g} s") from None


def _write(folder: Folder, stream: str, records: list[LogRecord]) -> Chunk:
    first, last = records[0].sequence, records[-1].sequence
    name = f"streams/{stream}/{first:020d}-{last:020d}.log"
    path = folder.place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, [StreamInfo(name=stream, last_sequence=last)], time.time_ns() // 1000) as put:
        for record in records:
            put(record)
    return _chunk(folder, path, stream, first, last)


def records_of(shelf: Shelf, index: Index, stream: str) -> Iterator[LogRecord]:
    """Everything a backup has of a stream, each file proven before it is used. Raises Invalid."""
    for chunk in index.of(stream):
        with shelf.file(chunk.file) as path:
            if fingerprint(path) != (chunk.size, chunk.sha256):
                raise Invalid(f"{shelf.name}: {chunk.file} was changed since the backup was made")
            _, records = reading(path)
            yield from records


async def fill(
    site: Open, stream: str, records: Iterable[LogRecord], *, after: int
) -> AsyncGenerator[int, None]:
    """Put records onto a stream that ends at `after`, each in its old place; tells how many, batch by batch.

    The server checks the place of each one: whoever else writes to the stream meanwhile is noticed.
    """
    batch: list[LogRecord] = []
    for record in records:
        if record.sequence <= after:
            continue
        batch.append(record)
        if len(batch) == AT_ONCE:
            await _put(site, stream, batch)
            yield len(batch)
            batch = []
    if batch:
        await _put(site, stream, batch)
        yield len(batch)


async def _put(site: Open, stream: str, batch: list[LogRecord]) -> None:
    sent = []
    for record in batch:
        headers = {EXPECTED_LAST: str(record.sequence - 1)}
        if stream != TELEMETRY:
            headers |= {MESSAGE_ID: Commit.FromString(record.commit).id, DIGEST: record.digest.hex()}
        sent.append((record, await site.publisher.start(record.subject, record.commit, headers)))
    answers = await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
    for record, answer in zip(batch, answers, strict=True):
        if isinstance(answer, NotTaken):
            # Its first answer may have been lost with a connection; then it lies where it should.
            await _check_place(site, stream, record, answer)
        elif isinstance(answer, BaseException):
            raise answer


async def _check_place(site: Open, stream: str, record: LogRecord, error: NotTaken) -> None:
    async with aclosing(site.log.follow(stream, after=record.sequence - 1, live=False)) as found:
        async for there in found:
            if (there.sequence, there.subject, there.data) == (
                record.sequence,
                record.subject,
                record.commit,
            ):
                return
            break
    raise Refused(
        f"{stream} {record.sequence} could not be restored ({error}): something else writes to this log. "
        "Stop every service, empty NATS and the bucket, and restore again"
    )
