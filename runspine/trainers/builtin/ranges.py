"""Ranges of arguments, next to their types: `gamma: Annotated[float, Range(0, 1)] = 0.99`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints


@dataclass(frozen=True, slots=True)
class Range:
    """A closed interval; None is unbounded."""

    low: float | None = None
    high: float | None = None

    def violation(self, value: float) -> str:
        """Why the value is out of range; empty when it is not."""
        if self.low is not None and not value >= self.low:
            return f"{value} is out of range: at least {self.low:g}"
        if self.high is not None and not value <= self.high:
            return f"{value} is out of range: at most {self.high:g}"
        return ""


def range_violations(args: Any) -> list[str]:
    """Values out of range in an instance of a dataclass, one sentence each."""
    found = []
    for name, hint in get_type_hints(type(args), include_extras=True).items():
        value = getattr(args, name)
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Range) and value is not None and (violation := mark.violation(value)):
                found.append(f"--{name.replace('_', '-')}: {violation}")
    return found
