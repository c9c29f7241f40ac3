"""Final performance, area under the curve, and time to a threshold. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runspine.compare.curves import Curve

Values = np.ndarray[Any, Any]


def final(curve: Curve, end: float, share: float) -> float:
    """Mean of the points in the last `share` before `end`; the last point when there are none."""
    inside = curve.x <= end
    start = end - share * (end - min(curve.start, 0.0))
    part = curve.y[inside & (curve.x > start)]
    if len(part):
        return float(part.mean())
    before = curve.y[inside]
    return float(before[-1]) if len(before) else math.nan


def area(grid: Values, values: Values) -> float:
    """Area under the curve divided by its width, in the unit of the metric; where the curve is."""
    there = np.isfinite(values)
    if not there.any():
        return math.nan
    grid, values = grid[there], values[there]
    width = float(grid[-1] - grid[0])
    if width <= 0:
        return float(values[0])
    return float(np.trapezoid(values, grid) / width)


def reached(grid: Values, values: Values, threshold: float) -> float:
    """First x at which the curve reaches the threshold; infinity when it never does."""
    places = np.flatnonzero(values >= threshold)
    return float(grid[places[0]]) if len(places) else math.inf
