"""Bytes from a pipe into lines, however long, whatever they hold. Pure."""

from __future__ import annotations

from collections.abc import Iterator

# A program that never ends its line must not fill the memory.
LONGEST_LINE = 32 << 20


class LineSplitter:
    """Feed it chunks; it gives back the lines that are complete."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._parts.append(part)
            yield self._take()
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size >= self._longest:
                yield self._take()

    def finish(self) -> Iterator[bytes]:
        """The last line, when it was not ended."""
        if self._parts:
            yield self._take()

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line.removesuffix(b"\r")


def pieces(text: str, most_bytes: int) -> Iterator[str]:
    """The text in parts of at most so many bytes of UTF-8, cut between characters."""
    if len(text) * 4 <= most_bytes:
        yield text
        return
    data = text.encode("utf-8", "replace")
    start = 0
    while start < len(data):
        end = min(start + most_bytes, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end
