"""A placement: one worker process that was started for one attempt of one run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PlacementState(Enum):
    """State of a placement on its engine."""

    # Requested, not placed yet.
    WAITING = "waiting"
    RUNNING = "running"
    # The process has ended; its outcome is on the log.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Placement:
    """One worker process that the launcher started for one attempt."""

    name: str
    run_id: str
    attempt: int
    state: PlacementState
    # The engine's reason for the state.
    reason: str = ""
