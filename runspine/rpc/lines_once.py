"""Log lines of a stream that is resumed after an outage, each once."""

from __future__ import annotations

from runspine.wire.v1.telemetry_pb2 import LogLine, StreamLogsRequest, StreamLogsResponse


class LinesOnce:
    """Advances a request over its answers, and leaves out lines that came before an outage.

    A message that does not advance the position comes again when the stream is resumed.
    """

    def __init__(self, request: StreamLogsRequest) -> None:
        self._request = request
        self._may_come_again: set[tuple[int, int]] = set()

    def take(self, message: StreamLogsResponse) -> list[LogLine]:
        """The lines of a message that are new."""
        lines = [line for line in message.lines if (message.attempt, line.number) not in self._may_come_again]
        if message.position > self._request.after:
            self._request.after = message.position
            self._may_come_again.clear()
        else:
            self._may_come_again |= {(message.attempt, line.number) for line in lines}
        return lines
