"""Curves of single runs, and all of them on one grid. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in the order of x, all of them numbers."""

    x: Values
    y: Values
    # Points that were left out because they are not numbers.
    dropped: int = 0

    @property
    def start(self) -> float:
        return float(self.x[0])

    @property
    def end(self) -> float:
        return float(self.x[-1])

    def __len__(self) -> int:
        return len(self.x)


def curve_of(x: Sequence[float], y: Sequence[float]) -> Curve:
    """NaN and infinite points do not count; equal x stay in the order they came."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    good = np.isfinite(xs) & np.isfinite(ys)
    order = np.argsort(xs[good], kind="stable")
    return Curve(xs[good][order], ys[good][order], int((~good).sum()))


def grid_over(curves: Sequence[Curve], points: int, high: float | None = None) -> Values:
    """From where every curve has begun to where the longest ends, or to `high`."""
    low = max(curve.start for curve in curves)
    end = max(curve.end for curve in curves) if high is None else high
    if end <= low:
        return np.array([max(low, end)])
    return np.linspace(low, end, points)


def on_grid(curve: Curve, grid: Values, width: float = 0.0) -> Values:
    """At each place of the grid the mean of the points up to `width` before it, itself included.

    The window reaches back to the place before at least, so that no point is passed over. Where it
    is empty, the last value holds. Beyond the curve's end, and before its first point, there is
    nothing (NaN).
    """
    ends = np.searchsorted(curve.x, grid, side="right")
    before = np.concatenate([[0], ends[:-1]])
    starts = np.minimum(np.searchsorted(curve.x, grid - width, side="right"), before)
    values = np.full(len(grid), np.nan)
    for at in np.flatnonzero(ends > starts).tolist():
        values[at] = curve.y[starts[at] : ends[at]].mean()
    there = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(grid)), -1))
    held = np.where(there >= 0, values[np.maximum(there, 0)], np.nan)
    # The place just behind the last point still has points of its own.
    return np.where((grid <= curve.end) | (ends > before), held, np.nan)
