"""Splits bytes from a trainer's descriptor into lines and binary frames (docs/protocol.md). Pure.

Nothing that a trainer writes is an error: a frame whose length or checksum is wrong is returned with the
problem, and reading goes on at the next frame or line in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from runspine.frames import HEAD, MAGIC, MAX_PAYLOAD_BYTES
from runspine.services.worker.protocol.line_splitter import MAX_LINE_BYTES, LineSplitter

_HEAD_BYTES = len(MAGIC) + HEAD.size
# What is read again after damage, of one stream: a trainer that writes nothing else must not busy a worker.
MAX_RESCANNED_BYTES = 64 << 20


class Frame(NamedTuple):
    """The payload of a frame, or the problem with it."""

    payload: bytes
    problem: str = ""


class FrameSplitter:
    """Takes chunks and returns complete lines and frames."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._lines = LineSplitter(max_bytes)
        # Whether the next byte begins a line.
        self._at_start = True
        self._head = b""
        # Of the frame that is being read: its parts, how many bytes are missing, and its checksum.
        self._parts: list[bytes] = []
        self._missing = 0
        self._checksum = 0
        self._rescans = MAX_RESCANNED_BYTES

    @property
    def held(self) -> int:
        """Bytes of the line or frame that has begun."""
        return self._lines.held + sum(map(len, self._parts)) + len(self._head)

    def feed(self, chunk: bytes) -> Iterator[bytes | Frame]:
        """The lines and frames that the chunk completes."""
        # An offset, not a rest: frames of short episodes are small, and a chunk has hundreds of them.
        data, at = chunk, 0
        while at < len(data):
            if self._missing:
                part = data[at : at + self._missing]
                self._parts.append(part)
                at += len(part)
                self._missing -= len(part)
                if not self._missing:
                    ended = self._end()
                    yield ended
                    if left := self._left_in(ended):
                        data, at = left + data[at:], 0
            elif self._at_start and MAGIC.startswith((self._head + data[at : at + len(MAGIC)])[: len(MAGIC)]):
                problem, at = self._begin(data, at)
                if problem:
                    yield Frame(b"", problem)
            else:
                end = self._line_end(data, at)
                yield from self._lines.feed(self._head + data[at:end])
                self._head, self._at_start = b"", data[end - 1] == 10
                at = end

    def finish(self) -> Iterator[bytes | Frame]:
        """The last line, when it has no newline; the problem, when a frame is cut."""
        if self._missing:
            yield Frame(b"", "it is cut in the middle")
            self._parts, self._missing = [], 0
        if self._head:
            yield from self._lines.feed(self._head)
        yield from self._lines.finish()

    def _line_end(self, data: bytes, at: int) -> int:
        """Up to where the data from here on is lines: to where a frame may begin."""
        start = at if not self._at_start else data.find(b"\n", at) + 1
        if self._at_start and not start:
            return len(data)
        found = data.find(b"\n" + MAGIC[:1], max(at, start - 1))
        return len(data) if found < 0 else found + 1

    def _begin(self, data: bytes, at: int) -> tuple[str, int]:
        """Read the head of a frame as far as it is there; the problem with it, and where the data goes on."""
        needed = _HEAD_BYTES - len(self._head)
        self._head += data[at : at + needed]
        if len(self._head) < _HEAD_BYTES:
            return "", len(data)
        length, self._checksum = HEAD.unpack_from(self._head, len(MAGIC))
        self._head = b""
        if not 0 < length <= MAX_PAYLOAD_BYTES:
            # What follows is read as lines.
            return f"its length is {length:,} bytes", at + needed
        self._missing, self._at_start = length, True
        return "", at + needed

    def _end(self) -> Frame:
        payload = b"".join(self._parts)
        self._parts = []
        return Frame(payload, "" if crc32(payload) == self._checksum else "its checksum is wrong")

    def _left_in(self, ended: Frame) -> bytes:
        """Of a damaged frame, what another process may have written where the rest of it was missing."""
        if not ended.problem or len(ended.payload) > self._rescans:
            return b""
        self._rescans -= len(ended.payload)
        places = [ended.payload.find(MAGIC), ended.payload.find(b'\n{"') + 1 or -1]
        first = min((place for place in places if place >= 0), default=-1)
        return ended.payload[first:] if first >= 0 else b""
