"""Results and exceptions of the checks."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class CheckOutcome(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    # The runner does not support it, or an earlier check failed.
    SKIPPED = "skipped"


class NotConformingError(Exception):
    """A check failed: what was observed, and the remedy."""

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen)
        self.seen, self.remedy = seen, remedy


class NotClaimedError(Exception):
    """The check does not apply; the message states why."""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one check of one runner."""

    runner: str
    check: str
    outcome: CheckOutcome
    # What was observed, in a sentence.
    seen: str
    # The remedy; empty unless the check failed.
    remedy: str = ""
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome.value}
