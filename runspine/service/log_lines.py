"""The stream of log lines: with a full disk, lines are lost and the service keeps working."""

from __future__ import annotations

from typing import TextIO

from prometheus_client import Counter

UNWRITTEN = Counter("runspine_log_lines_unwritten", "Log lines that could not be written, for want of room")


class LogLines:
    """The part of a text stream that a logger needs. It never raises."""

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
