"""What the server states about a stored message: in the headers of a direct get, and in its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

SEQUENCE = "Nats-Sequence"
TIME = "Nats-Time-Stamp"
EPOCH = datetime.fromtimestamp(0, UTC)
MICROSECOND = timedelta(microseconds=1)


def stored_at(headers: Mapping[str, str]) -> int:
    """When the message was stored, in microseconds."""
    return micros(headers[TIME])


def micros(text: str) -> int:
    """A time of the server in microseconds; its nanoseconds are cut off."""
    return (datetime.fromisoformat(text) - EPOCH) // MICROSECOND
