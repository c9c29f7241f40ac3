"""What a check found."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Outcome(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    # The runner does not claim it, or an earlier failure stands in the way.
    SKIPPED = "skipped"


class Broken(Exception):
    """A promise is not kept: what was seen, and what to do about it."""

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen)
        self.seen, self.remedy = seen, remedy


class NotClaimed(Exception):
    """There is nothing to check; the message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    runner: str
    check: str
    outcome: Outcome
    # What was seen, in a sentence.
    seen: str
    # What to do; empty unless it failed.
    remedy: str = ""
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome.value}
