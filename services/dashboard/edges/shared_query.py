"""Queries that many pages share: executed once, cached, and returned to all of them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

# An answer is held for HOLD_FACTOR times as long as the query took, within these bounds: a service spends at
# most a fortieth of its time on one query of all pages.
MIN_HOLD_SECONDS, HOLD_FACTOR, MAX_HOLD_SECONDS = 0.9, 40.0, 15.0
# The hold of a `steady` answer doubles each time that it is unchanged, up to this.
MAX_STEADY_HOLD_SECONDS = 20.0
# An answer about an unchanged run is fresh for this long.
UNCHANGED_SECONDS = 5.0
MAX_ANSWERS = 512


def hold_seconds(took: float) -> float:
    """How long the answer of a query is held that took so long."""
    return min(MAX_HOLD_SECONDS, max(MIN_HOLD_SECONDS, took * HOLD_FACTOR))


@dataclass(slots=True)
class SharedAnswer:
    value: Any
    version: int
    at: float
    due: float


def steady_hold_seconds(held: SharedAnswer) -> float:
    """How long an answer is held that equals the one before."""
    return min(MAX_STEADY_HOLD_SECONDS, 2 * (held.due - held.at))


class SharedQuery:
    """Cached answers by key; `version` is that of the object that the query is about."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, SharedAnswer] = OrderedDict()
        self._locks: dict[Hashable, asyncio.Lock] = {}

    async def get(
        self, key: Hashable, version: int, make: Callable[[], Awaitable[Any]], *, steady: bool = False
    ) -> Any:
        """The cached answer if it is fresh, else that of `make`, executed once for all waiting callers.

        `steady`: a nonempty answer that stays the same is queried less and less often.
        Errors are not cached: the next caller executes the query again.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                held, now = self._held.get(key), time.monotonic()
                if held is not None and is_fresh(held, version, now):
                    return held.value
                value = await make()
                took = time.monotonic() - now
                hold = hold_seconds(took)
                if steady and held is not None and value and held.value == value:
                    hold = max(hold, steady_hold_seconds(held))
                self._held[key] = SharedAnswer(value, version, now, now + took + hold)
                self._held.move_to_end(key)
                while len(self._held) > MAX_ANSWERS:
                    self._held.popitem(last=False)
                return value
        finally:
            if not lock.locked():
                self._locks.pop(key, None)


def is_fresh(held: SharedAnswer, version: int, now: float) -> bool:
    return now < held.due or (held.version == version and now - held.at < UNCHANGED_SECONDS)
