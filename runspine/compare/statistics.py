"""Mean, interquartile mean and bootstrap intervals over seeds. Pure; the generator is a parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, Any]
# From (…, runs, places) to (…, places).
Statistic = Callable[[Values], Values]
# Resampled values in memory at once.
MAX_RESAMPLED = 4_000_000


class Interval(NamedTuple):
    low: Values
    high: Values


def mean(values: Values) -> Values:
    result: Values = np.mean(values, axis=-2)
    return result


def iqm(values: Values) -> Values:
    """Mean of the middle half of the runs; a quarter, rounded down, is dropped at either end.

    Of three runs or fewer it is the mean of all.
    """
    runs = values.shape[-2]
    cut = runs // 4
    middle = np.sort(values, axis=-2)[..., cut : runs - cut, :]
    result: Values = np.mean(middle, axis=-2)
    return result


STATISTICS: dict[str, Statistic] = {"iqm": iqm, "mean": mean}


def bootstrap(
    values: Values,
    strata: Sequence[int],
    statistic: Statistic,
    generator: np.random.Generator,
    *,
    samples: int = 2000,
    confidence: float = 0.95,
) -> Interval | None:
    """Percentile interval of a statistic over (runs, places), by resampling runs within each stratum.

    None when no stratum has two runs.
    """
    groups = [np.flatnonzero(np.asarray(strata) == stratum) for stratum in sorted(set(strata))]
    if all(len(group) < 2 for group in groups):
        return None
    runs, places = values.shape
    drawn = np.concatenate(
        [group[generator.integers(0, len(group), (samples, len(group)))] for group in groups], axis=1
    )
    step = max(1, MAX_RESAMPLED // max(1, runs * places))
    found = np.concatenate([statistic(values[drawn[at : at + step]]) for at in range(0, samples, step)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail], axis=0)
    return Interval(low, high)
