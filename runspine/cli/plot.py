"""Several curves with bands in the terminal: Braille for the lines, shade for the bands.

On a terminal each curve has its colour; everywhere it also has a letter, at its end and in the legend.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from runspine.cli.text import escaped

# Okabe and Ito: told apart by people with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE, _SHADE = 0x2800, "░"


@dataclass(frozen=True, slots=True)
class Line:
    """A curve; `low` and `high` are empty, or NaN where there is no band."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of the plane that is drawn, and how large."""

    left: float
    right: float
    bottom: float
    top: float
    width: int
    height: int

    def column(self, x: float) -> int:
        """In dots, two for each character."""
        share = (min(max(x, self.left), self.right) - self.left) / (self.right - self.left)
        return round(share * (2 * self.width - 1))

    def row(self, y: float) -> int:
        """In dots, four for each character, from the top."""
        share = (self.top - min(max(y, self.bottom), self.top)) / (self.top - self.bottom)
        return round(share * (4 * self.height - 1))


# What stands in each character: its text, and the curve it belongs to.
Cells = list[list[tuple[str, int]]]


def draw(
    lines: Sequence[Line], *, title: str, x_label: str, width: int = 72, height: int = 16, legend: bool = True
) -> list[str]:
    """Lines of text, coloured when standard output is a terminal."""
    drawable = [line for line in lines if any(math.isfinite(y) for y in line.y)]
    if not drawable:
        return [title, "  nothing to draw: no point is a number"]
    frame = _frame(drawable, width, height)
    cells = _cells(drawable, frame)
    labels = [_shown(frame.top - (frame.top - frame.bottom) * row / (height - 1)) for row in range(height)]
    margin = max(map(len, labels))
    shown = {0, height // 4, height // 2, 3 * height // 4, height - 1}
    text = [escaped(title)]
    for row, line in enumerate(cells):
        label = labels[row] if row in shown else ""
        text.append(f"{label:>{margin}} {'┤' if row in shown else '│'}" + _joined(line))
    text.append(" " * margin + " └" + "─" * width)
    first, last = _shown(frame.left), f"{_shown(frame.right)} {x_label}"
    text.append(" " * (margin + 2) + first + last.rjust(width - len(first)))
    if legend:
        text += _legend(drawable, margin + 2)
    return text


def sparkline(values: Sequence[float]) -> str:
    """A row of blocks, low to high; a gap where there is no number."""
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


def _frame(lines: Sequence[Line], width: int, height: int) -> Frame:
    xs = [x for line in lines for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    values = [v for line in lines for part in (line.y, line.low, line.high) for v in part]
    ys = [value for value in values if math.isfinite(value)]
    left, right, bottom, top = min(xs), max(xs), min(ys), max(ys)
    if left == right:
        left, right = left - 0.5, right + 0.5
    if bottom == top:
        bottom, top = bottom - max(1.0, abs(bottom) / 10), top + max(1.0, abs(top) / 10)
    return Frame(left, right, bottom, top, width, height)


def _cells(lines: Sequence[Line], frame: Frame) -> Cells:
    cells: Cells = [[(" ", -1)] * frame.width for _ in range(frame.height)]
    for number, line in enumerate(lines):
        _shade(cells, frame, line, number)
    for number, line in enumerate(lines):
        _stroke(cells, frame, line, number)
    if len(lines) > 1:
        for number, line in enumerate(lines):
            _letter(cells, frame, line, number)
    return cells


def _shade(cells: Cells, frame: Frame, line: Line, number: int) -> None:
    if not line.low:
        return
    for x, low in _between(frame, line.x, line.low):
        cells_column = frame.column(x) // 2
        top = _at(line.x, line.high, x)
        if not math.isfinite(top):
            continue
        for row in range(frame.row(top) // 4, frame.row(low) // 4 + 1):
            if cells[row][cells_column][1] < 0:
                cells[row][cells_column] = (_SHADE, number)


def _stroke(cells: Cells, frame: Frame, line: Line, number: int) -> None:
    dots: dict[tuple[int, int], int] = {}
    for x, y in _between(frame, line.x, line.y):
        row, column = frame.row(y), frame.column(x)
        place = (row // 4, column // 2)
        dots[place] = dots.get(place, 0) | _DOTS[row % 4][column % 2]
    for (row, column), bits in dots.items():
        cells[row][column] = (chr(_BRAILLE + bits), number)


def _letter(cells: Cells, frame: Frame, line: Line, number: int) -> None:
    last = max(i for i, y in enumerate(line.y) if math.isfinite(y))
    row, column = frame.row(line.y[last]) // 4, frame.column(line.x[last]) // 2
    # Curves that end together write their letters one below the other.
    while row < frame.height - 1 and cells[row][column][0] in LETTERS:
        row += 1
    cells[row][column] = (LETTERS[number % 26], number)


def _between(frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    """The points and what lies between them, so that a curve is a line. What is no number breaks it."""
    there = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
    dense: list[tuple[float, float]] = list(there)
    for (x0, y0), (x1, y1) in pairwise(zip(xs, ys, strict=True)):
        if math.isfinite(y0) and math.isfinite(y1):
            across = abs(frame.column(x1) - frame.column(x0))
            up = abs(frame.row(y1) - frame.row(y0))
            pieces = max(1, 2 * max(across, up))
            dense += [(x0 + (x1 - x0) * n / pieces, y0 + (y1 - y0) * n / pieces) for n in range(1, pieces)]
    return dense


def _at(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """The value at x, on the line between its neighbours."""
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


def _legend(lines: Sequence[Line], margin: int) -> list[str]:
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


def _shown(value: float) -> str:
    size = abs(value)
    if size >= 10_000_000:
        return f"{value / 1e6:,.0f}M"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"
