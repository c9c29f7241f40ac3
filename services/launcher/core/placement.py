"""A placement: one worker process that was started for one attempt of one run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from runspine.wire.v1.facts_pb2 import EngineStop


class PlacementState(Enum):
    """State of a placement on its engine."""

    # Requested, not placed yet.
    WAITING = "waiting"
    RUNNING = "running"
    # The process has ended; its outcome is on the log.
    OVER = "over"
    # Its process has ended, and the engine keeps the placement for another attempt of its run.
    REQUEUED = "requeued"


@dataclass(frozen=True, slots=True)
class Placement:
    """One worker process that the launcher started for one attempt."""

    name: str
    run_id: str
    attempt: int
    state: PlacementState
    # The engine's reason for the state.
    reason: str = ""
    # Why the engine ended its worker, where it states that.
    stop: EngineStop | None = None
    worker_id: str = ""
