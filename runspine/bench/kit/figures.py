"""Figures of a report: what was measured, compared with what, and whether the target is met."""

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

# Key of `Figure.context` in JSON, as in files of earlier releases.
CONTEXT_KEY = "beside"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, and the context to read it in."""

    what: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None
    context: str = ""
    # Lowest and highest of several rounds.
    low: float | None = None
    high: float | None = None
    # Key of the target that it answers.
    key: str = ""
    # Comparison that it belongs to, and whose value it is there.
    group: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Growth of one cost: points of (size, cost)."""

    chart: str
    name: str
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Figures and curves of one benchmark."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    curves: list[CostCurve] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, **more: object) -> None:
        self.figures.append(Figure(what, value, unit, **more))  # type: ignore[arg-type]

    def curve(self, chart: str, name: str) -> list[tuple[float, float]]:
        """Add a curve and return its points, to append to."""
        self.curves.append(CostCurve(chart, name))
        return self.curves[-1].points

    def as_json(self) -> dict[str, object]:
        return {
            "title": self.title,
            "machine": machine(),
            "figures": [{**figure_as_json(f), "value": _known(f.value)} for f in self.figures],
            "curves": [asdict(curve) for curve in self.curves],
        }

    def as_markdown(self) -> str:
        lines = [
            f"## {self.title}",
            "",
            machine(),
            "",
            "| what | measured | target | compared with |",
            "|---|---|---|---|",
        ]
        for f in self.figures:
            mark = {True: " ✓", False: " ✗", None: ""}[f.met]
            lines.append(f"| {f.what} | {shown(f.value)} {f.unit}{mark} | {f.target} | {f.context} |")
        return "\n".join(lines) + "\n"


def figure_as_json(figure: Figure) -> dict[str, Any]:
    return {CONTEXT_KEY if name == "context" else name: value for name, value in asdict(figure).items()}


def figure_from_json(fields: dict[str, Any]) -> Figure:
    known = {"context" if name == CONTEXT_KEY else name: value for name, value in fields.items()}
    return Figure(**{**known, "value": math.nan if known["value"] is None else known["value"]})


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _known(value: float) -> float | None:
    """None for a value that was not measured: JSON has no NaN."""
    return value if math.isfinite(value) else None


def spread(values: Sequence[float], scale: float = 1.0) -> dict[str, Any]:
    """Median, lowest and highest of several rounds, for `Report.add`."""
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
