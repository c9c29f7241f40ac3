"""Rules on a metric, folded point by point. Pure."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from runspine.notice.rules import COLLAPSE, PLATEAU, QUIET
from runspine.wire.v1.spec_pb2 import NoticeRule

MINUTE = 60_000_000
# Points in the means of a collapse, unless the rule states another number.
POINTS = 20


@dataclass(slots=True)
class MetricFold:
    """One rule on one series of one run. It holds once."""

    rule: NoticeRule
    best: float | None = None
    best_step: int = 0
    # Of a collapse: the last points. Of a quiet: the time of the newest, in microseconds.
    recent: deque[float] = field(default_factory=deque)
    newest: int = 0

    def feed(self, step: int, value: float) -> str:
        """Why the rule holds at this point; empty while it does not."""
        if not math.isfinite(value) or self.rule.on == QUIET:
            return ""
        if self.rule.on == COLLAPSE:
            return self._collapse(step, value)
        return self._plateau(step, value) if self.rule.on == PLATEAU else self._threshold(step, value)

    def _threshold(self, step: int, value: float) -> str:
        rule = self.rule
        if rule.HasField("above") and value > rule.above:
            return f"{rule.metric} is {value:g} at step {step:,}, above {rule.above:g}"
        if rule.HasField("below") and value < rule.below:
            return f"{rule.metric} is {value:g} at step {step:,}, below {rule.below:g}"
        return ""

    def quiet(self, now: int, since: int) -> str:
        """Why a rule on silence holds at this time, of a run that trains since another."""
        last = max(self.newest, since)
        if self.rule.on != QUIET or now - last < self.rule.minutes * MINUTE:
            return ""
        what = "no point" if self.newest < since else "no further point"
        return f"{self.rule.metric} has had {what} for {(now - last) / MINUTE:.0f} minutes"

    def _collapse(self, step: int, value: float) -> str:
        rule, wanted = self.rule, self.rule.points or POINTS
        self.recent.append(value)
        if len(self.recent) < wanted:
            return ""
        mean = math.fsum(self.recent) / wanted
        self.recent.popleft()
        sign = -1.0 if rule.goal == "min" else 1.0
        if self.best is None or sign * (mean - self.best) > 0:
            self.best, self.best_step = mean, step
        if sign * (self.best - mean) < rule.drop:
            return ""
        return (
            f"{rule.metric} is {mean:g} at step {step:,} (mean of {wanted} points), and was {self.best:g} "
            f"at step {self.best_step:,}"
        )

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
