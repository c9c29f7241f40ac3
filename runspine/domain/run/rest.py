"""Whether a queued run waits for its backoff before the next attempt. Pure."""

from __future__ import annotations

from runspine.wire.v1.run_pb2 import Run

# A run queued this many microseconds in the future was dated by a wrong clock.
WRONG_CLOCK = 60_000_000


def rests(run: Run, now: int) -> bool:
    """Whether the backoff lasts. One that was dated by a clock that is far ahead is ignored."""
    return now < run.not_before and run.queued_at <= now + WRONG_CLOCK
