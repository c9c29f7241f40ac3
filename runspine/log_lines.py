"""Where log lines go: a disk that is full costs lines, never the work that they tell of."""

from __future__ import annotations

from typing import TextIO

from prometheus_client import Counter

UNWRITTEN = Counter("runspine_log_lines_unwritten", "Log lines that could not be written, for want of room")


class LogLines:
    """As much of a text stream as a logger needs. Nothing is raised into whoever logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return 0

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            UNWRITTEN.inc()
