"""Curves of runs, and their alignment on a common grid. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Curve:
    """Finite points in order of x."""

    x: Values
    y: Values
    # Number of NaN or infinite points that were dropped.
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
    """Sort points by x, stable, and drop those that are NaN or infinite."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    good = np.isfinite(xs) & np.isfinite(ys)
    order = np.argsort(xs[good], kind="stable")
    return Curve(xs[good][order], ys[good][order], int((~good).sum()))


def seconds_since(started_at: int, times: Sequence[float]) -> list[float]:
    """Times of a log, in microseconds, as seconds since the start of the run: runs have that in common."""
    return [(time - started_at) / 1e6 for time in times]


def follow_each_other(curves: Sequence[Curve]) -> bool:
    """Whether a curve starts where another has ended, or later."""
    return len(curves) > 1 and _latest_start(curves) >= min(curve.end for curve in curves)


def _latest_start(curves: Sequence[Curve]) -> float:
    return max(curve.start for curve in curves)


def grid_over(curves: Sequence[Curve], points: int) -> Values:
    """Grid from the latest start of a curve to the end of the longest.

    When a curve starts where another has ended, as fine-tuning does, it begins at the earliest start.
    """
    low = min(curve.start for curve in curves) if follow_each_other(curves) else _latest_start(curves)
    end = max(curve.end for curve in curves)
    if end <= low:
        return np.array([max(low, end)])
    return np.linspace(low, end, points)


def on_grid(curve: Curve, grid: Values, width: float = 0.0) -> Values:
    """Mean of the points in a trailing window of `width` at each grid point.

    The window extends at least to the previous grid point, so that every point counts. An empty window
    repeats the last value. Before the first and after the last point the result is NaN.
    """
    ends = np.searchsorted(curve.x, grid, side="right")
    before = np.concatenate([[0], ends[:-1]])
    starts = np.minimum(np.searchsorted(curve.x, grid - width, side="right"), before)
    values = np.full(len(grid), np.nan)
    for at in np.flatnonzero(ends > starts).tolist():
        values[at] = curve.y[starts[at] : ends[at]].mean()
    there = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(grid)), -1))
    held = np.where(there >= 0, values[np.maximum(there, 0)], np.nan)
    # The grid point just after the end still has points in its window.
    return np.where((grid <= curve.end) | (ends > before), held, np.nan)
