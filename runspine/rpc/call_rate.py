"""Calls per caller and second, limited by a bucket that refills with time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

# So many seconds' worth of calls may come at once.
BURST_SECONDS = 2.0
MAX_CALLERS = 10_000


class CallRate:
    """Whether a caller makes too many calls. The oldest callers are forgotten; 0 means no limit."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        # By caller: calls that are left, and when that was.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def refusal(self, caller: str) -> str:
        """Count a call; why it is refused, or empty."""
        if not self._per_second:
            return ""
        now, most = self._clock(), self._per_second * BURST_SECONDS
        left, at = self._left.get(caller, (most, now))
        left = min(most, left + (now - at) * self._per_second)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        self._left.move_to_end(caller)
        while len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)
        return "" if allowed else self._text(caller)

    def _text(self, caller: str) -> str:
        return (
            f"token {caller!r} makes more than {self._per_second:g} calls a second, the limit of this "
            "service: call less often, or have the operator raise RUNSPINE_MAX_CALLS_PER_SECOND"
        )
