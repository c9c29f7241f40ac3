"""The spool of one attempt: batches on disk until JetStream acknowledges them.

Plain blocking files: records in segment files, oldest first, and a cursor with the last acknowledged number.
A record is written before it is published. Data is synced at intervals, not for each record: a killed
worker loses nothing that was written, a machine that loses power at most the last interval.
"""

from __future__ import annotations

import os
import shutil
import struct
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import structlog

from runspine.services.worker.telemetry.assembly.spool_record import HEADER, SpoolRecord

log = structlog.get_logger()

SEGMENT_BYTES = 8 << 20
_CHECKED = struct.Struct("<QB")
_CURSOR = struct.Struct("<QI")
_SUFFIX = ".seg"


class SpoolDamagedError(Exception):
    """A record of the spool is not as it was written."""


@dataclass(slots=True)
class _Segment:
    """One segment file."""

    path: Path
    descriptor: int
    size: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a record is in a segment."""

    segment: _Segment
    offset: int
    size: int


class SpoolFiles:
    """The files of one attempt. Used by one thread at a time, but for `sync`."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open the files of a folder, truncating a record that a killed writer left incomplete."""
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments: deque[_Segment] = deque()
        self._unread: deque[_Place] = deque()
        self._unsynced: dict[Path, int] = {}
        self._sync_lock = threading.Lock()
        self._last = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._cursor = os.open(folder / "cursor", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.acked = self._read_cursor()
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            self._open_segment(path)

    @property
    def unread_bytes(self) -> int:
        """Bytes of the records that were not read yet."""
        return sum(place.size for place in self._unread)

    def append(self, records: list[SpoolRecord]) -> None:
        """Write records. After an OSError the call can be repeated; nothing is written twice."""
        for group in self._by_segment([record for record in records if record.number > self._last]):
            segment = self._segments[-1]
            data = b"".join(map(_frame, group))
            try:
                _write(segment.descriptor, data, segment.size)
            except OSError:
                os.ftruncate(segment.descriptor, segment.size)
                raise
            self._note_unsynced(segment)
            for record in group:
                self._unread.append(_Place(segment, segment.size, record.size))
                segment.size += record.size
                segment.last = self._last = record.number

    def read(self, max_bytes: int) -> list[SpoolRecord]:
        """The next unread records, at least one if there is any. Raises SpoolDamagedError."""
        found: list[SpoolRecord] = []
        size = 0
        while self._unread and (not found or size + self._unread[0].size <= max_bytes):
            place = self._unread.popleft()
            data = os.pread(place.segment.descriptor, place.size, place.offset)
            record = _parse(data)
            if record is None:
                raise SpoolDamagedError(f"{place.segment.path}: the record at {place.offset} is damaged")
            found.append(record)
            size += place.size
        return found

    def after(self, number: int) -> Iterator[SpoolRecord]:
        """Unread records after this number; they stay unread."""
        for place in list(self._unread):
            if place.segment.last > number:
                record = _parse(os.pread(place.segment.descriptor, place.size, place.offset))
                if record is not None and record.number > number:
                    yield record

    def acknowledge(self, number: int) -> None:
        """Record that JetStream has everything up to this number, and delete finished segments."""
        if number <= self.acked:
            return
        self.acked = number
        os.pwrite(self._cursor, _CURSOR.pack(number, crc32(number.to_bytes(8, "little"))), 0)
        while len(self._segments) > 1 and self._segments[0].last <= number:
            done = self._segments.popleft()
            os.close(done.descriptor)
            done.path.unlink()

    def sync(self) -> None:
        """Make written records survive a loss of power. May be called from another thread."""
        with self._sync_lock:
            unsynced, self._unsynced = self._unsynced, {}
        for descriptor in unsynced.values():
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Sync and close all files."""
        self.sync()
        while self._segments:
            os.close(self._segments.pop().descriptor)
        os.close(self._cursor)

    def remove(self) -> None:
        """Close and delete all files."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _by_segment(self, records: list[SpoolRecord]) -> Iterator[list[SpoolRecord]]:
        """Groups of records for one segment each, which is then the last segment."""
        group: list[SpoolRecord] = []
        size = self._segments[-1].size if self._segments else self._segment_bytes
        for record in records:
            if size >= self._segment_bytes:
                if group:
                    yield group
                self._begin_segment(record.number)
                group, size = [], 0
            group.append(record)
            size += record.size
        if group:
            yield group

    def _begin_segment(self, number: int) -> None:
        path = self._folder / f"{number:020}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._segments.append(_Segment(path, os.open(path, flags, 0o600)))
        with self._sync_lock:
            # The name of a new file is synced with its folder.
            if self._folder not in self._unsynced:
                self._unsynced[self._folder] = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)

    def _note_unsynced(self, segment: _Segment) -> None:
        # A copy, so that the segment can be closed while it is being synced.
        with self._sync_lock:
            if segment.path not in self._unsynced:
                self._unsynced[segment.path] = os.dup(segment.descriptor)

    def _read_cursor(self) -> int:
        data = os.pread(self._cursor, _CURSOR.size, 0)
        if len(data) == _CURSOR.size:
            number, check = _CURSOR.unpack(data)
            if crc32(number.to_bytes(8, "little")) == check:
                return int(number)
        # Unknown means none: JetStream deduplicates what is sent again.
        return 0

    def _open_segment(self, path: Path) -> None:
        segment = _Segment(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))
        there = os.fstat(segment.descriptor).st_size
        while (record := _read_at(segment.descriptor, segment.size)) and record.number > self._last:
            if record.number > self.acked:
                self._unread.append(_Place(segment, segment.size, record.size))
            segment.size += record.size
            segment.last = self._last = record.number
        if there > segment.size:
            log.warning("spool.cut", path=str(path), bytes=there - segment.size)
            os.ftruncate(segment.descriptor, segment.size)
        self._segments.append(segment)


def _frame(record: SpoolRecord) -> bytes:
    head = _CHECKED.pack(record.number, record.kind)
    return (
        HEADER.pack(len(record.payload), _checksum(head, record.payload), record.number, record.kind)
        + record.payload
    )


def _checksum(head: bytes, payload: bytes) -> int:
    return crc32(payload, crc32(head))


def _parse(data: bytes) -> SpoolRecord | None:
    """The record, or None when it is not whole."""
    if len(data) < HEADER.size:
        return None
    length, check, number, kind = HEADER.unpack_from(data)
    payload = data[HEADER.size : HEADER.size + length]
    if len(payload) != length or _checksum(_CHECKED.pack(number, kind), payload) != check:
        return None
    return SpoolRecord(number, kind, payload)


def _read_at(descriptor: int, offset: int) -> SpoolRecord | None:
    head = os.pread(descriptor, HEADER.size, offset)
    if len(head) < HEADER.size:
        return None
    length = HEADER.unpack(head)[0]
    # A torn length may be gigabytes: read no more than a segment.
    return _parse(head + os.pread(descriptor, min(length, SEGMENT_BYTES), offset + HEADER.size))


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
