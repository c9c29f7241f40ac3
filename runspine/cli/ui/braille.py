"""Braille canvas for charts in a terminal: each character holds two dots across and four down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

BLANK = chr(0x2800)
# Bit of each dot of a character, by its row and column.
_DOT_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The visible range of both axes, and its size in characters."""

    left: float
    right: float
    bottom: float
    top: float
    width: int
    height: int

    def column(self, x: float) -> int:
        """Dot column of a value, clamped to the area."""
        share = (min(max(x, self.left), self.right) - self.left) / (self.right - self.left)
        return round(share * (2 * self.width - 1))

    def row(self, y: float) -> int:
        """Dot row of a value, counted from the top and clamped to the area."""
        share = (self.top - min(max(y, self.bottom), self.top)) / (self.top - self.bottom)
        return round(share * (4 * self.height - 1))

    def interpolate(self, xs: Sequence[float], ys: Sequence[float]) -> list[Point]:
        """The finite points and enough points between neighbours to draw a line; NaN interrupts it."""
        points = list(zip(xs, ys, strict=True))
        dense = [(x, y) for x, y in points if math.isfinite(y)]
        for (x0, y0), (x1, y1) in pairwise(points):
            if math.isfinite(y0) and math.isfinite(y1):
                across = abs(self.column(x1) - self.column(x0))
                down = abs(self.row(y1) - self.row(y0))
                pieces = max(1, 2 * max(across, down))
                dense += [
                    (x0 + (x1 - x0) * n / pieces, y0 + (y1 - y0) * n / pieces) for n in range(1, pieces)
                ]
        return dense


@dataclass(slots=True)
class BrailleCanvas:
    """Dots of one line in a plot area."""

    area: PlotArea
    _bits: dict[tuple[int, int], int] = field(default_factory=dict)

    def draw(self, points: Iterable[Point]) -> None:
        for x, y in points:
            row, column = self.area.row(y), self.area.column(x)
            cell = (row // 4, column // 2)
            self._bits[cell] = self._bits.get(cell, 0) | _DOT_BITS[row % 4][column % 2]

    def cells(self) -> dict[tuple[int, int], str]:
        """Characters that hold at least one dot, by row and column."""
        return {cell: chr(ord(BLANK) + bits) for cell, bits in self._bits.items()}

    def lines(self) -> list[str]:
        """One string for each row, without trailing blanks."""
        cells = self.cells()
        return [
            "".join(cells.get((row, column), BLANK) for column in range(self.area.width)).rstrip(BLANK)
            for row in range(self.area.height)
        ]
