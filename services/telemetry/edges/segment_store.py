"""Segments in S3: written and verified, read whole or in part."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from runspine.services.telemetry.core import parquet
from runspine.services.telemetry.core.segments import NewSegment
from runspine.services.telemetry.edges.metrics import CACHE_BYTES, SEGMENT_BYTES
from runspine.storage.ranged_blobs import RangedBlobs
from runspine.wire.v1.manifest_pb2 import Segment

T = TypeVar("T")
# The end of a file holds its footer, and that of a levels file also the coarse levels.
TAIL_BYTES = 64 << 10
MAX_CONCURRENT = 8


class SegmentNotStoredError(Exception):
    """The stored object is missing or differs from what was written."""


class SegmentGoneError(Exception):
    """The segment was replaced by another since its lookup."""


class SegmentStore:
    """Stores segments in S3 and reads them, with a cache of footers and levels."""

    def __init__(self, blobs: RangedBlobs, cache_bytes: int) -> None:
        self._blobs = blobs
        self._cache = SizedCache(cache_bytes)
        self._room = asyncio.Semaphore(MAX_CONCURRENT)

    async def put(self, made: NewSegment) -> None:
        """Store its objects and read them back. Raises SegmentNotStoredError, BlobsUnavailableError."""
        for key, data in made.objects.items():
            async with self._room:
                await self._blobs.put(key, data)
                if await self._blobs.get(key) != data:
                    raise SegmentNotStoredError(f"{key} does not read back as it was written")
        SEGMENT_BYTES.labels(made.segment.kind).observe(made.segment.size)

    async def whole(self, segment: Segment, columns: list[str] | None = None) -> pa.Table:
        """All rows, after checking the digest of the bytes."""
        async with self._room:
            data = await self._blobs.get(segment.key)
            if data is None:
                raise SegmentGoneError(segment.key)
            return await asyncio.to_thread(_verified, segment, data, columns)

    async def rows(
        self, segment: Segment, columns: list[str] | None, ranges: Sequence[tuple[int, int]]
    ) -> list[tuple[int, pa.Table]]:
        """The row groups that hold these rows, each with the number of its first row."""
        footer = await self.footer(segment.key, segment.size)
        wanted = groups_of(footer, ranges)
        return await self._read(segment.key, segment.size, footer, columns, wanted)

    async def groups(
        self, segment: Segment, columns: list[str] | None, wanted: Sequence[int]
    ) -> list[tuple[int, pa.Table]]:
        footer = await self.footer(segment.key, segment.size)
        starts = group_starts(footer)
        return await self._read(
            segment.key, segment.size, footer, columns, [(group, starts[group]) for group in wanted]
        )

    async def pieces(
        self, segment: Segment, wanted: Sequence[int], max_bytes: int
    ) -> AsyncGenerator[pa.Table, None]:
        """The rows of these row groups in order, about `max_bytes` at a time."""
        footer = await self.footer(segment.key, segment.size)

        def start(group: int) -> Iterator[pa.RecordBatch]:
            stored = footer.row_group(group)
            rows = max(1, stored.num_rows * max_bytes // max(1, stored.total_byte_size))
            large = stored_bytes(stored) > max_bytes
            file = self._open(segment.key, segment.size, footer, buffer_size=max_bytes if large else 0)
            return iter(file.iter_batches(batch_size=min(rows, stored.num_rows), row_groups=[group]))

        def following(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
            with checking_pages(segment.key):
                return next(batches, None)

        for group in wanted:
            batches = start(group)
            while True:
                async with self._room:
                    batch = await asyncio.to_thread(following, batches)
                if batch is None:
                    break
                yield pa.Table.from_batches([batch])

    async def level(self, segment: Segment, size: int) -> pa.Table:
        """One level of a segment's series."""
        return await self._cached((segment.levels_key, size), lambda: self._read_level(segment, size))

    async def footer(self, key: str, size: int) -> pq.FileMetaData:
        async def read() -> pq.FileMetaData:
            async with self._room:
                return await asyncio.to_thread(lambda: self._open(key, size).metadata)

        return await self._cached((key, 0), read)

    async def _read_level(self, segment: Segment, size: int) -> pa.Table:
        async with self._room:
            return await asyncio.to_thread(self._level, segment, size)

    def _level(self, segment: Segment, size: int) -> pa.Table:
        with checking_pages(segment.levels_key):
            return self._read_level_groups(segment, size)

    def _read_level_groups(self, segment: Segment, size: int) -> pa.Table:
        file = self._open(segment.levels_key, segment.levels_size)
        found = [g for g in range(file.num_row_groups) if group_range(file.metadata, g, "level")[0] == size]
        return file.read_row_groups(found) if found else file.schema_arrow.empty_table()

    async def _read(
        self,
        key: str,
        size: int,
        footer: pq.FileMetaData,
        columns: list[str] | None,
        wanted: Sequence[tuple[int, int]],
    ) -> list[tuple[int, pa.Table]]:
        def read(group: int) -> pa.Table:
            with checking_pages(key):
                return self._open(key, size, footer).read_row_group(group, columns=columns)

        async def one(group: int, start: int) -> tuple[int, pa.Table]:
            async with self._room:
                return start, await asyncio.to_thread(read, group)

        return await asyncio.gather(*(one(group, start) for group, start in wanted))

    def _open(
        self, key: str, size: int, footer: pq.FileMetaData | None = None, *, buffer_size: int = 0
    ) -> pq.ParquetFile:
        """With `buffer_size`, columns are read that many bytes at a time, else each whole."""
        file = RangedFile(self._blobs, key, size)
        return pq.ParquetFile(
            pa.PythonFile(file, mode="r"),
            metadata=footer,
            pre_buffer=not buffer_size,
            buffer_size=buffer_size,
            page_checksum_verification=True,
        )

    async def _cached(self, key: tuple[str, int], read: Callable[[], Any]) -> Any:
        found = self._cache.get(key)
        if found is None:
            found = await read()
            self._cache.put(key, found, size_of(found))
        return found


@contextmanager
def checking_pages(key: str) -> Iterator[None]:
    """Raise SegmentNotStoredError for a page whose checksum does not match."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise SegmentNotStoredError(f"{key} was changed since it was written: {error}") from error


def _verified(segment: Segment, data: bytes, columns: list[str] | None) -> pa.Table:
    if hashlib.sha256(data).digest() != segment.sha256:
        raise SegmentNotStoredError(f"{segment.key} was changed since it was written")
    return parquet.from_bytes(data, columns)


def size_of(found: Any) -> int:
    # A parsed footer takes several times its size.
    return int(found.serialized_size) * 8 if isinstance(found, pq.FileMetaData) else int(found.nbytes)


def stored_bytes(group: pq.RowGroupMetaData) -> int:
    """Bytes of a row group in its object."""
    return sum(int(group.column(at).total_compressed_size) for at in range(group.num_columns))


def group_starts(footer: pq.FileMetaData) -> list[int]:
    starts, row = [], 0
    for group in range(footer.num_row_groups):
        starts.append(row)
        row += footer.row_group(group).num_rows
    return starts


def groups_of(footer: pq.FileMetaData, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Row groups that hold any of these rows, and where each begins."""
    found = []
    for group, start in enumerate(group_starts(footer)):
        end = start + footer.row_group(group).num_rows
        if any(first < end and last > start for first, last in ranges):
            found.append((group, start))
    return found


def has_range(footer: pq.FileMetaData, group: int, column: str) -> bool:
    """Whether a row group has the smallest and largest value of a column."""
    at = footer.schema.to_arrow_schema().get_field_index(column)
    return footer.row_group(group).column(at).statistics is not None


def group_range(footer: pq.FileMetaData, group: int, column: str) -> tuple[int, int]:
    """Smallest and largest value of a column in a row group."""
    at = footer.schema.to_arrow_schema().get_field_index(column)
    statistics = footer.row_group(group).column(at).statistics
    return int(statistics.min), int(statistics.max)


class RangedFile(io.RawIOBase):
    """An object in S3 as a file, of which only the requested ranges are read."""

    def __init__(self, blobs: RangedBlobs, key: str, size: int) -> None:
        self._blobs, self._key, self._size = blobs, key, size
        self._at = 0
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = max(0, min(size if size >= 0 else self._size, self._size - self._at))
        data = self._part(self._at, length) if length else b""
        self._at += length
        return data

    def _part(self, start: int, length: int) -> bytes:
        begin = max(0, self._size - TAIL_BYTES)
        if start < begin:
            return self._fetch(start, length)
        if self._tail is None:
            self._tail = self._fetch(begin, self._size - begin)
        return self._tail[start - begin : start - begin + length]

    def _fetch(self, start: int, length: int) -> bytes:
        data = self._blobs.read_range(self._key, start, length)
        if data is None:
            raise SegmentGoneError(self._key)
        return data


class SizedCache:
    """A least-recently-used cache with a limit in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Any) -> Any:
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: Any, value: Any, size: int) -> None:
        if size > self._limit or key in self._held:
            return
        self._held[key] = (value, size)
        self._bytes += size
        while self._bytes > self._limit:
            _, (_, dropped) = self._held.popitem(last=False)
            self._bytes -= dropped
        CACHE_BYTES.set(self._bytes)
