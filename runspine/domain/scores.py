"""Statistics of returns: figures of a batch, and the confidence interval of a mean. Standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

# Means drawn for an interval, and bounds that keep the numbers drawn for it in total below MAX_DRAWN.
DRAWS = 2000
MAX_DRAWN = 2_000_000
MIN_DRAWS = 200


class BatchFigures(NamedTuple):
    """Figures of one batch; `std` is that of a population. All NaN when one of the returns is."""

    mean: float
    minimum: float
    maximum: float
    median: float
    std: float


def figures_of(returns: Sequence[float]) -> BatchFigures:
    """Figures of a batch's returns. Raises ValueError when there are none."""
    if not returns:
        raise ValueError("a batch without an episode has no figures")
    if any(map(math.isnan, returns)):
        return BatchFigures(*[math.nan] * 5)
    ordered = sorted(returns)
    half = len(ordered) // 2
    middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    if not all(map(math.isfinite, returns)):
        return BatchFigures(sum(returns) / len(returns), ordered[0], ordered[-1], middle, math.nan)
    mean = math.fsum(returns) / len(returns)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in returns) / len(returns))
    return BatchFigures(mean, ordered[0], ordered[-1], middle, spread)


class ScoreInterval(NamedTuple):
    """A confidence interval of a mean return."""

    low: float
    high: float


def interval_of(returns: Sequence[float], level: float = 0.95, seed: int = 1) -> ScoreInterval:
    """The confidence interval of the mean by bootstrap: the middle `level` of the means of resamples.

    The same returns give the same interval.
    """
    if not returns or not all(map(math.isfinite, returns)):
        return ScoreInterval(math.nan, math.nan)
    count = len(returns)
    if len(set(returns)) == 1:
        return ScoreInterval(returns[0], returns[0])
    draws = max(MIN_DRAWS, min(DRAWS, MAX_DRAWN // count))
    generator = random.Random(seed)
    means = sorted(math.fsum(generator.choices(returns, k=count)) / count for _ in range(draws))
    tail = (1 - level) / 2
    return ScoreInterval(_quantile(means, tail), _quantile(means, 1 - tail))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


class Running:
    """Mean, deviation and range of all batches so far, without keeping their returns."""

    def __init__(self) -> None:
        self.batches = 0
        self.count = 0
        self.mean = 0.0
        self.minimum, self.maximum = math.inf, -math.inf
        self._squares = 0.0

    def add(self, returns: Sequence[float]) -> None:
        """Merge the moments of one more batch."""
        batch, added = figures_of(returns), len(returns)
        total, shift = self.count + added, batch.mean - self.mean
        self._squares += batch.std**2 * added + shift**2 * self.count * added / total
        self.mean += shift * added / total
        self.count = total
        self.minimum, self.maximum = min(self.minimum, batch.minimum), max(self.maximum, batch.maximum)
        self.batches += 1

    @property
    def std(self) -> float:
        return math.sqrt(self._squares / self.count) if self.count else math.nan
