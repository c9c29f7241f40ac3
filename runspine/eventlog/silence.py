"""Requests that a server of a cluster leaves unanswered. Pure.

A server may answer pings and not reach the leader of a stream: its route is cut, or slow. Then another server
is a better one to be connected to.
"""

from __future__ import annotations

SILENT_SECONDS = 2.0
# While a stream has no leader no server answers: they are not tried in turns. A little more than an election.
PAUSE_SECONDS = 10.0


class Silence:
    """Since when requests to which stream have had no reply."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._not_before = 0.0

    def answered(self, subject: str) -> None:
        """A request was answered, even if with an error."""
        if self._since:
            self._since.pop(_stream_in(subject), None)

    def unanswered(self, subject: str, sent: float) -> None:
        """A request sent at this time had no reply yet."""
        if stream := _stream_in(subject):
            self._since.setdefault(stream, sent)

    def is_long(self, now: float) -> bool:
        """Whether to leave the server."""
        return now >= self._not_before and any(
            now - since >= SILENT_SECONDS for since in self._since.values()
        )

    def left(self, now: float) -> None:
        """Another server is connected to."""
        self._since.clear()
        self._not_before = now + PAUSE_SECONDS


def _stream_in(subject: str) -> str:
    """The stream whose leader is asked, or the first token of what is published; empty for other requests.

    A consumer is created by a server of its own, which may be the only one that hangs.
    """
    words = subject.split(".")
    if words[:3] == ["$JS", "API", "STREAM"]:
        return words[-1]
    return "" if words[0].startswith(("$", "_")) else words[0]
