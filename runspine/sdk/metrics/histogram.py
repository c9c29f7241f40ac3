"""A histogram as a few metrics: quantiles of its values, and how many there were. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

PREFIX = "histograms/"
# In percent: the ends, the middle, and what lies around it.
LEVELS = (0, 5, 25, 50, 75, 95, 100)
COUNT = "count"
# Of more values every n-th counts: a histogram must not hold up the trainer.
MAX_VALUES = 100_000


def quantiles(tag: str, values: Any) -> dict[str, float]:
    """Metrics `histograms/TAG/p0` to `/p100` and `/count`; none without a finite value."""
    given = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    flat = np.asarray(given, dtype=np.float64).reshape(-1)
    finite = flat[:: len(flat) // MAX_VALUES + 1]
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return {}
    found = np.percentile(finite, LEVELS)
    metrics = {f"{PREFIX}{tag}/p{level}": float(value) for level, value in zip(LEVELS, found, strict=True)}
    return {**metrics, f"{PREFIX}{tag}/{COUNT}": float(len(flat))}
