"""A curve in the terminal, drawn with Braille dots: two across and four down in each character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800

Point = tuple[float, float]


@dataclass(slots=True)
class Curve:
    """Points as they come, one for each step that was heard of."""

    points: list[Point] = field(default_factory=list)

    def add(self, x: float, y: float) -> None:
        if math.isfinite(y) and (not self.points or x > self.points[-1][0]):
            self.points.append((x, y))


def draw_curve(points: Sequence[Point], *, title: str, width: int = 60, height: int = 10) -> list[str]:
    """Lines of text; none when there is too little to draw."""
    if len(points) < 3 or width < 20:
        return []
    xs, ys = zip(*points, strict=True)
    low, high = min(ys), max(ys)
    if high == low:
        low, high = low - 1, high + 1
    labels = [_shown(high - (high - low) * row / (height - 1)) for row in range(height)]
    margin = max(map(len, labels))
    cells = [[0] * width for _ in range(height)]
    for x, y in _dense(points, 2 * width):
        column = round((x - xs[0]) / (xs[-1] - xs[0]) * (2 * width - 1))
        row = round((high - y) / (high - low) * (4 * height - 1))
        cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
    lines = [title]
    for row, line in enumerate(cells):
        label = labels[row] if row in (0, height // 2, height - 1) else ""
        lines.append(
            f"{label:>{margin}} ┤" + "".join(chr(_BLANK + cell) for cell in line).rstrip(chr(_BLANK))
        )
    first, last = f"{xs[0]:,.0f}", f"{xs[-1]:,.0f} steps"
    lines.append(" " * margin + " └" + "─" * width)
    lines.append(" " * (margin + 2) + first + last.rjust(width - len(first)))
    return lines


def _dense(points: Sequence[Point], columns: int) -> list[Point]:
    """The points and what lies between them, so that the curve is a line."""
    whole = points[-1][0] - points[0][0]
    dense: list[Point] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        pieces = max(1, math.ceil(4 * columns * (x1 - x0) / whole))
        dense += [(x0 + (x1 - x0) * n / pieces, y0 + (y1 - y0) * n / pieces) for n in range(pieces)]
    return [*dense, points[-1]]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
