"""Charts of several curves in the terminal: Braille dots for lines, shade for bands.

Each curve has a letter, at its end and in the legend, and a colour where stdout is a terminal.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from runspine.cli.ui.braille import BrailleCanvas, PlotArea
from runspine.text.values import escaped

# Okabe-Ito palette, distinguishable with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SHADE = "░"


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A curve; `low` and `high` are empty, or NaN where there is no band."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


# Each character of the chart: its text and the index of its curve, -1 for none.
Cells = list[list[tuple[str, int]]]


def draw(
    lines: Sequence[PlotLine],
    *,
    title: str,
    x_label: str,
    width: int = 72,
    height: int = 16,
) -> list[str]:
    """Return the chart as lines of text, coloured when stdout is a terminal."""
    drawable = [line for line in lines if any(math.isfinite(y) for y in line.y)]
    if not drawable:
        return [title, "  nothing to draw: no point is a number"]
    area = _area(drawable, width, height)
    cells = _cells(drawable, area)
    labels = [_number(area.top - (area.top - area.bottom) * row / (height - 1)) for row in range(height)]
    margin = max(map(len, labels))
    shown = {0, height // 4, height // 2, 3 * height // 4, height - 1}
    text = [escaped(title)]
    for row, line in enumerate(cells):
        label = labels[row] if row in shown else ""
        text.append(f"{label:>{margin}} {'┤' if row in shown else '│'}" + _joined(line))
    text.append(" " * margin + " └" + "─" * width)
    first, last = _number(area.left), f"{_number(area.right)} {x_label}"
    text.append(" " * (margin + 2) + first + last.rjust(width - len(first)))
    return text + _legend(drawable, margin + 2)


def sparkline(values: Sequence[float]) -> str:
    """Return block characters scaled from the lowest to the highest value; a space for NaN."""
    good = [value for value in values if math.isfinite(value)]
    if not good:
        return ""
    low, high = min(good), max(good)
    blocks = "▁▂▃▄▅▆▇█"
    text = ""
    for value in values:
        if not math.isfinite(value):
            text += " "
        else:
            share = (value - low) / (high - low) if high > low else 0.5
            text += blocks[min(7, int(share * 8))]
    return text


def _area(lines: Sequence[PlotLine], width: int, height: int) -> PlotArea:
    xs = [x for line in lines for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    values = [v for line in lines for part in (line.y, line.low, line.high) for v in part]
    ys = [value for value in values if math.isfinite(value)]
    left, right, bottom, top = min(xs), max(xs), min(ys), max(ys)
    if left == right:
        left, right = left - 0.5, right + 0.5
    if bottom == top:
        bottom, top = bottom - max(1.0, abs(bottom) / 10), top + max(1.0, abs(top) / 10)
    return PlotArea(left, right, bottom, top, width, height)


def _cells(lines: Sequence[PlotLine], area: PlotArea) -> Cells:
    cells: Cells = [[(" ", -1)] * area.width for _ in range(area.height)]
    for number, line in enumerate(lines):
        _shade(cells, area, line, number)
    for number, line in enumerate(lines):
        _stroke(cells, area, line, number)
    if len(lines) > 1:
        for number, line in enumerate(lines):
            _letter(cells, area, line, number)
    return cells


def _shade(cells: Cells, area: PlotArea, line: PlotLine, number: int) -> None:
    if not line.low:
        return
    for x, low in area.interpolate(line.x, line.low):
        cells_column = area.column(x) // 2
        top = _at(line.x, line.high, x)
        if not math.isfinite(top):
            continue
        for row in range(area.row(top) // 4, area.row(low) // 4 + 1):
            if cells[row][cells_column][1] < 0:
                cells[row][cells_column] = (_SHADE, number)


def _stroke(cells: Cells, area: PlotArea, line: PlotLine, number: int) -> None:
    canvas = BrailleCanvas(area)
    canvas.draw(area.interpolate(line.x, line.y))
    for (row, column), character in canvas.cells().items():
        cells[row][column] = (character, number)


def _letter(cells: Cells, area: PlotArea, line: PlotLine, number: int) -> None:
    last = max(i for i, y in enumerate(line.y) if math.isfinite(y))
    row, column = area.row(line.y[last]) // 4, area.column(line.x[last]) // 2
    # Letters of curves that end at the same place are stacked.
    while row < area.height - 1 and cells[row][column][0] in LETTERS:
        row += 1
    cells[row][column] = (LETTERS[number % 26], number)


def _at(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Linear interpolation of ys at x."""
    for (x0, y0), (x1, y1) in pairwise(zip(xs, ys, strict=True)):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return ys[-1]


def _joined(line: list[tuple[str, int]]) -> str:
    if not _coloured():
        return "".join(text for text, _ in line).rstrip()
    parts, current = [], -2
    for text, number in line:
        if number != current:
            parts.append("\x1b[0m" if number < 0 else _escape(number, dim=False))
            current = number
        parts.append(text)
    return "".join(parts) + "\x1b[0m"


def _legend(lines: Sequence[PlotLine], margin: int) -> list[str]:
    if len(lines) == 1 and not lines[0].label:
        return []
    text = []
    for number, line in enumerate(lines):
        mark = f"{LETTERS[number % 26]} ⠤⠤" if len(lines) > 1 else "⠤⠤"
        if _coloured():
            mark = f"{_escape(number, dim=False)}{mark}\x1b[0m"
        text.append(" " * margin + f"{mark} {escaped(line.label)}")
    return text


def _escape(number: int, *, dim: bool) -> str:
    colour = COLOURS[number % len(COLOURS)]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"\x1b[{'2;' if dim else ''}38;2;{red};{green};{blue}m"


def _coloured() -> bool:
    import os

    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _number(value: float) -> str:
    size = abs(value)
    if size >= 10_000_000:
        return f"{value / 1e6:,.0f}M"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"
