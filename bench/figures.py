"""Numbers as a report: what was measured, beside what, and whether the target is met."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None
    beside: str = ""


@dataclass(slots=True)
class Report:
    title: str
    figures: list[Figure] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, **more: object) -> None:
        self.figures.append(Figure(what, value, unit, **more))  # type: ignore[arg-type]

    def as_json(self) -> dict[str, object]:
        return {"title": self.title, "machine": machine(), "figures": [asdict(f) for f in self.figures]}

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
