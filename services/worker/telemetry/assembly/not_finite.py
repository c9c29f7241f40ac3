"""Metrics that are NaN or infinite: counted, and the first one of each series stated in the run's log."""

from __future__ import annotations

import math
from collections.abc import Iterator

# Series whose first such value is stated.
MAX_STATED = 20
HINT = "later ones are counted on the run; the training may have diverged"


class NotFinite:
    def __init__(self) -> None:
        self._stated: set[str] = set()
        self.count = 0

    def add(self, values: dict[str, float], step: int) -> Iterator[str]:
        """Count; what the log is to state."""
        # One sum is cheaper than a look at each value; that of -inf and inf is not a number either.
        if math.isfinite(sum(values.values())):
            return
        for name, value in values.items():
            if math.isfinite(value):
                continue
            self.count += 1
            if name not in self._stated and len(self._stated) < MAX_STATED:
                self._stated.add(name)
                yield f"{name} is {value} at step {step:,}: {HINT}"
