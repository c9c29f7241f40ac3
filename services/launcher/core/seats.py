"""A seat: one process that was started for one attempt of one run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    # Asked for, not placed yet.
    WAITING = "waiting"
    RUNNING = "running"
    # It has ended, well or badly: the log knows which.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Seat:
    name: str
    run_id: str
    attempt: int
    state: State
    # Why it is where it is, in the engine's words.
    reason: str = ""
