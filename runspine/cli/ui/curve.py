"""The learning curve of a followed run, drawn in the terminal when the run ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from runspine.cli.ui.braille import BrailleCanvas, PlotArea, Point


@dataclass(slots=True)
class LiveCurve:
    """Points of a curve as they arrive; keeps finite values at increasing steps."""

    points: list[Point] = field(default_factory=list)

    def add(self, x: float, y: float) -> None:
        if math.isfinite(y) and (not self.points or x > self.points[-1][0]):
            self.points.append((x, y))


def draw_curve(points: Sequence[Point], *, title: str, width: int = 60, height: int = 10) -> list[str]:
    """Return the chart as lines of text; empty with fewer than three points."""
    if len(points) < 3 or width < 20:
        return []
    xs, ys = zip(*points, strict=True)
    low, high = min(ys), max(ys)
    if high == low:
        low, high = low - 1, high + 1
    labels = [_number(high - (high - low) * row / (height - 1)) for row in range(height)]
    margin = max(map(len, labels))
    area = PlotArea(xs[0], xs[-1], low, high, width, height)
    canvas = BrailleCanvas(area)
    canvas.draw(area.interpolate(xs, ys))
    lines = [title]
    for row, line in enumerate(canvas.lines()):
        label = labels[row] if row in (0, height // 2, height - 1) else ""
        lines.append(f"{label:>{margin}} ┤{line}")
    first, last = f"{xs[0]:,.0f}", f"{xs[-1]:,.0f} steps"
    lines.append(" " * margin + " └" + "─" * width)
    lines.append(" " * (margin + 2) + first + last.rjust(width - len(first)))
    return lines


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
