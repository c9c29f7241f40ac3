"""Curves from buckets: selects those in a window and joins them into at most so many points. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from runspine.services.telemetry.core.levels import SIZES, Buckets
from runspine.wire.v1.telemetry_pb2 import EPISODE, TIME, Axis, Series

Column = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class CurveWindow:
    """A range on an axis, both ends included."""

    axis: Axis
    low: float
    high: float
    # When each episode of the run ended, sorted; for the axis that counts episodes.
    ends: Column | None = None

    def x(self, steps: Column, at: Column) -> Column:
        if self.axis == TIME:
            return at.astype(np.float64)
        if self.axis == EPISODE:
            # How many episodes had ended by then.
            return np.searchsorted(self.ends if self.ends is not None else [], at, side="right").astype(
                np.float64
            )
        return steps.astype(np.float64)

    def firsts(self, buckets: Buckets) -> Column:
        return self.x(buckets.first_step, buckets.first_at)

    def lasts(self, buckets: Buckets) -> Column:
        return self.x(buckets.last_step, buckets.last_at)


def sift(buckets: Buckets, window: CurveWindow, cutoff: int | None) -> tuple[Column, Column]:
    """Masks of the buckets that are in the window whole, and of those that are in it in part."""
    first, last = window.firsts(buckets), window.lasts(buckets)
    touches = (last >= window.low) & (first <= window.high)
    whole = (first >= window.low) & (last <= window.high)
    if cutoff is not None:
        if cutoff < 0:
            nothing = np.zeros(len(buckets), bool)
            return nothing, nothing
        touches &= buckets.first_step <= cutoff
        whole &= buckets.last_step <= cutoff
    whole &= touches
    return whole, touches & ~whole


def size_for(points: int, max_points: int) -> int:
    """The largest level with a bucket for each wanted point; 0 for single points."""
    wanted = points / max(1, max_points)
    return max((size for size in SIZES if size <= wanted), default=0)


def exact(name: str, points: Buckets, window: CurveWindow) -> Series:
    """Single points, in order of x."""
    x = window.firsts(points)
    order = np.argsort(x, kind="stable")
    y = points.low[order]
    return Series(name=name, exact=True, x=x[order], y=y, low=y, high=y, points=len(points))


def bucketed(name: str, buckets: Buckets, window: CurveWindow, max_points: int) -> Series:
    """Join adjacent buckets until at most `max_points` are left. Minimum, maximum and count stay exact."""
    n = len(buckets)
    if not n:
        return Series(name=name, exact=True)
    first, last = window.firsts(buckets), window.lasts(buckets)
    order = np.argsort(first, kind="stable")
    starts = _starts(buckets.count[order], max_points)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        count = np.add.reduceat(buckets.count[order], starts)
        numbers = (count - np.add.reduceat(buckets.nans[order], starts)).astype(np.float64)
        total = np.add.reduceat(buckets.total[order], starts)
        left, right = np.minimum.reduceat(first[order], starts), np.maximum.reduceat(last[order], starts)
        low = np.fmin.reduceat(buckets.low[order], starts)
        high = np.fmax.reduceat(buckets.high[order], starts)
        return Series(
            name=name,
            exact=False,
            x=left + (right - left) / 2,
            # Rounding must not move the mean of equal values.
            y=np.clip(total / numbers, low, high),
            low=low,
            high=high,
            points=int(count.sum()),
        )


def _starts(counts: Column, max_points: int) -> Column:
    """Where each of at most `max_points` groups begins, of about as many points each."""
    if len(counts) <= max_points:
        return np.arange(len(counts))
    before = np.cumsum(counts) - counts
    share = int(counts.sum()) / max_points
    places = np.minimum((before / share).astype(np.int64), max_points - 1)
    return np.append(0, np.flatnonzero(np.diff(places)) + 1)
