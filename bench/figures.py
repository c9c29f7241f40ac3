"""Numbers as a report: what was measured, beside what, and whether the target is met."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None
    beside: str = ""
    # The lowest and the highest of several rounds, where there were several.
    low: float | None = None
    high: float | None = None
    # Which row of the design's targets it answers.
    key: str = ""
    # In which comparison it stands, and whose it is there.
    group: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """How one cost grows: (how much, what it costs)."""

    chart: str
    name: str
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    title: str
    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, **more: object) -> None:
        self.figures.append(Figure(what, value, unit, **more))  # type: ignore[arg-type]

    def curve(self, chart: str, name: str) -> list[tuple[float, float]]:
        """The points of a curve, to be added to."""
        self.curves.append(Curve(chart, name))
        return self.curves[-1].points

    def as_json(self) -> dict[str, object]:
        return {
            "title": self.title,
            "machine": machine(),
            "figures": [{**asdict(f), "value": _known(f.value)} for f in self.figures],
            "curves": [asdict(curve) for curve in self.curves],
        }

    def as_markdown(self) -> str:
        lines = [
            f"## {self.title}",
            "",
            machine(),
            "",
            "| what | measured | target | beside it |",
            "|---|---|---|---|",
        ]
        for f in self.figures:
            mark = {True: " ✓", False: " ✗", None: ""}[f.met]
            lines.append(f"| {f.what} | {shown(f.value)} {f.unit}{mark} | {f.target} | {f.beside} |")
        return "\n".join(lines) + "\n"


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _known(value: float) -> float | None:
    """What was not measured is not a number, and JSON has no name for that."""
    return value if math.isfinite(value) else None


def spread(values: Sequence[float], scale: float = 1.0) -> dict[str, Any]:
    """The median of several rounds and how far apart they were, for `Report.add`."""
    found: dict[str, Any] = {"value": median(values) * scale}
    if len(values) > 1:
        found |= {"low": min(values) * scale, "high": max(values) * scale}
    return found


def machine() -> str:
    load = os.getloadavg()[0]
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}, load {load:.1f}"


def percentile(values: Sequence[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


@contextmanager
def stopwatch(into: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)
