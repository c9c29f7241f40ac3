"""The range of an argument, kept beside its type: `gamma: Annotated[float, Range(0, 1)] = 0.99`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends belong to it; None is open."""

    low: float | None = None
    high: float | None = None

    def flaw(self, value: float) -> str:
        """What is wrong with the value; empty when nothing is."""
        if self.low is not None and not value >= self.low:
            return f"{value} is out of range: at least {self.low:g}"
        if self.high is not None and not value <= self.high:
            return f"{value} is out of range: at most {self.high:g}"
        return ""


def flaws(args: Any) -> list[str]:
    """What is out of range in an instance of a dataclass, one sentence each."""
    found = []
    for name, hint in get_type_hints(type(args), include_extras=True).items():
        value = getattr(args, name)
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Range) and value is not None and (flaw := mark.flaw(value)):
                found.append(f"--{name.replace('_', '-')}: {flaw}")
    return found
