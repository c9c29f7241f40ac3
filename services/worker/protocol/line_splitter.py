"""Splits bytes from a pipe into lines, of any length and content. Pure."""

from __future__ import annotations

from collections.abc import Iterator

# A program that never ends its line must not exhaust the memory.
MAX_LINE_BYTES = 32 << 20


class LineSplitter:
    """Takes chunks and returns complete lines."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes of the line that has begun."""
        return self._size

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that the chunk completes."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._parts.append(part)
            yield self._take()
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size >= self._max_bytes:
                yield self._take()

    def finish(self) -> Iterator[bytes]:
        """The last line, when it has no newline."""
        if self._parts:
            yield self._take()

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line.removesuffix(b"\r")


def split_text(text: str, max_bytes: int) -> Iterator[str]:
    """Split a text into parts of at most `max_bytes` of UTF-8, between characters."""
    if len(text) * 4 <= max_bytes:
        yield text
        return
    data = text.encode("utf-8", "replace")
    start = 0
    while start < len(data):
        end = min(start + max_bytes, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end
