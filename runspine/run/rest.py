"""Whether a queued run still rests before its next attempt. Pure."""

from __future__ import annotations

from runspine.wire.v1.run_pb2 import Run

# Whoever queued a run this many microseconds from now has a clock that is wrong, or ours is.
WRONG_CLOCK = 60_000_000


def rests(run: Run, now: int) -> bool:
    """A rest is no longer than was meant: one dated by a clock a day ahead does not last a day."""
    return now < run.not_before and run.queued_at <= now + WRONG_CLOCK
