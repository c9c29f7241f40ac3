"""Failed logins are limited: per address, and of all addresses together. Memory is bounded."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

# Failures that may come at once, and how many a minute after that.
ADDRESS_BURST, ADDRESS_PER_MINUTE = 10, 10
TOTAL_BURST, TOTAL_PER_MINUTE = 200, 100
MAX_ADDRESSES = 10_000


@dataclass(slots=True)
class Bucket:
    """Failures that are still allowed; it refills with time."""

    left: float
    at: float


class LoginThrottle:
    """For how long an address must wait before it may try a token.

    When failures of all addresses are too many, addresses from which somebody has logged in may still try.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, Bucket] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._total = Bucket(TOTAL_BURST, clock())

    def seconds_to_wait(self, address: str) -> float:
        """0 when the address may try now."""
        now = self._clock()
        own = self._addresses.get(address)
        waits = [_wait(own, now, ADDRESS_BURST, ADDRESS_PER_MINUTE)] if own else []
        if address not in self._known:
            waits.append(_wait(self._total, now, TOTAL_BURST, TOTAL_PER_MINUTE))
        return max(waits, default=0.0)

    def failed(self, address: str) -> None:
        now = self._clock()
        own = self._addresses.setdefault(address, Bucket(ADDRESS_BURST, now))
        self._addresses.move_to_end(address)
        own.left -= 1
        _wait(self._total, now, TOTAL_BURST, TOTAL_PER_MINUTE)
        self._total.left = max(0.0, self._total.left - 1)
        _shorten(self._addresses)

    def succeeded(self, address: str) -> None:
        self._addresses.pop(address, None)
        self._known[address] = None
        self._known.move_to_end(address)
        _shorten(self._known)


def _wait(bucket: Bucket, now: float, burst: int, per_minute: int) -> float:
    """Refill the bucket; seconds until it holds one."""
    bucket.left = min(burst, bucket.left + (now - bucket.at) * per_minute / 60)
    bucket.at = now
    return 0.0 if bucket.left >= 1 else (1 - bucket.left) * 60 / per_minute


def _shorten(known: OrderedDict[str, Bucket] | OrderedDict[str, None]) -> None:
    while len(known) > MAX_ADDRESSES:
        known.popitem(last=False)
