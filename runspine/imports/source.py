"""What a run of another tool is made of. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runspine.errors import RefusedError


class SourceError(RefusedError):
    """The files are not what their tool writes."""


class Point(NamedTuple):
    """One point of a series."""

    name: str
    step: int
    value: float
    # Seconds since 1970; 0 when the source states none.
    at: float


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A run that was found. Its points are read when they are asked for."""

    tool: str
    name: str
    # Where it was found, for people.
    where: str
    points: Callable[[], Iterator[Point]]
    config: Mapping[str, Any] = field(default_factory=dict)
    project: str = ""


def flat_numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers among nested values, by names joined with a slash; media of W&B are left out."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if "_type" not in value:
                yield from flat_numbers(value, f"{name}/")
        elif isinstance(value, (bool, int, float)):
            yield name, float(value)
        elif isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
            # As W&B writes them.
            yield name, float(value)


def whole_step(value: float) -> int:
    """A step as the archive holds it: whole and not negative."""
    return max(0, int(value)) if math.isfinite(value) else 0
