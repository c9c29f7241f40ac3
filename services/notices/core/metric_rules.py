"""Rules on a metric, folded point by point. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runspine.notice.rules import PLATEAU
from runspine.wire.v1.spec_pb2 import NoticeRule


@dataclass(slots=True)
class MetricFold:
    """One rule on one series of one run. It holds once."""

    rule: NoticeRule
    best: float | None = None
    best_step: int = 0

    def feed(self, step: int, value: float) -> str:
        """Why the rule holds at this point; empty while it does not."""
        if not math.isfinite(value):
            return ""
        return self._plateau(step, value) if self.rule.on == PLATEAU else self._threshold(step, value)

    def _threshold(self, step: int, value: float) -> str:
        rule = self.rule
        if rule.HasField("above") and value > rule.above:
            return f"{rule.metric} is {value:g} at step {step:,}, above {rule.above:g}"
        if rule.HasField("below") and value < rule.below:
            return f"{rule.metric} is {value:g} at step {step:,}, below {rule.below:g}"
        return ""

    def _plateau(self, step: int, value: float) -> str:
        rule = self.rule
        sign = -1.0 if rule.goal == "min" else 1.0
        if self.best is None or sign * (value - self.best) > rule.min_delta:
            self.best, self.best_step = value, step
            return ""
        if step - self.best_step < rule.steps:
            return ""
        return (
            f"{rule.metric} is {value:g} at step {step:,} and was not better than {self.best:g} "
            f"of step {self.best_step:,} for {step - self.best_step:,} steps"
        )
