"""Final and intermediate scores of a run. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one run: its value, and the mean at each rung of the budget it has passed."""

    value: float | None = None
    rungs: tuple[float, ...] = ()
    # Why there is no value.
    problem: str = ""


def score(
    x: Sequence[float], y: Sequence[float], *, how: str, best: str, budget: int, rungs: int, ended: bool
) -> Score:
    """Points are in the order of x. `how` is final, last or best; `best` is the direction."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(b)]
    if not points:
        return Score(problem=f"all its {len(x):,} points are NaN or infinite" if x else "it has no points")
    if not math.isfinite(y[-1]):
        return Score(problem=f"its last point is {y[-1]}")
    reached = float(budget) if ended else x[-1]
    return Score(_value(points, how, best), tuple(_passed(points, budget, rungs, reached)))


def _value(points: Sequence[tuple[float, float]], how: str, best: str) -> float:
    if how == "last":
        return points[-1][1]
    if how == "best":
        return (max if best == "maximize" else min)(y for _, y in points)
    first, end = points[0][0], points[-1][0]
    return _mean([y for x, y in points if x >= end - (end - first) / 10])


def _passed(points: Sequence[tuple[float, float]], budget: int, rungs: int, reached: float) -> list[float]:
    """Mean of each completed part of the budget; a part without points repeats the one before."""
    means: list[float] = []
    for rung in range(1, rungs + 1):
        low, high = budget * (rung - 1) / rungs, budget * rung / rungs
        if budget == 0 or reached < high:
            break
        inside = [y for x, y in points if low < x <= high or (rung == 1 and x == 0)]
        if not inside and not means:
            break  # no points this early: it cannot be compared there
        means.append(_mean(inside) if inside else means[-1])
    return means


def mean_rungs(scores: Sequence[Score]) -> list[float]:
    """Means over seeds, up to the last rung that all of them have passed."""
    return [_mean(values) for values in zip(*(one.rungs for one in scores), strict=False)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
