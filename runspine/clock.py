"""Wall-clock time in microseconds since 1970, the unit of every timestamp in facts and replies."""

from __future__ import annotations

import time


def now_micros() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
