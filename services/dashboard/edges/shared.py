"""The same question of many pages, asked once and answered to all of them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

# An answer is held at least this long, and so many times as long as it took: a service that is asked
# by pages spends at most a fortieth of its time on one question, and less when it has no time.
LEAST_SECONDS, SHARE, LONGEST_SECONDS = 0.9, 40.0, 15.0
# What hardly ever changes is held twice as long each time that it has not, up to so long.
STEADY_SECONDS = 20.0
# Of a run that does not change an answer is good for this long.
SAME_SECONDS = 5.0
MOST_HELD = 512


def rest_after(took: float) -> float:
    """How long nobody asks again what took so long to answer."""
    return min(LONGEST_SECONDS, max(LEAST_SECONDS, took * SHARE))


@dataclass(slots=True)
class Held:
    value: Any
    version: int
    at: float
    due: float


def steady_rest(held: Held) -> float:
    """How long an answer is held that is the same as the one before."""
    return min(STEADY_SECONDS, 2 * (held.due - held.at))


class Shared:
    """Answers by question; `version` is that of what the question is about."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Held] = OrderedDict()
        self._locks: dict[Hashable, asyncio.Lock] = {}

    async def get(
        self, key: Hashable, version: int, make: Callable[[], Awaitable[Any]], *, steady: bool = False
    ) -> Any:
        """The answer that is there, or one that is made now, for all who wait for it.

        `steady`: an answer that stays the same is asked for less and less often, unless it is empty.
        Errors are nobody's but the asker's: the next one asks again.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                held, now = self._held.get(key), time.monotonic()
                if held is not None and is_good(held, version, now):
                    return held.value
                value = await make()
                took = time.monotonic() - now
                rest = rest_after(took)
                if steady and held is not None and value and held.value == value:
                    rest = max(rest, steady_rest(held))
                self._held[key] = Held(value, version, now, now + took + rest)
                self._held.move_to_end(key)
                while len(self._held) > MOST_HELD:
                    self._held.popitem(last=False)
                return value
        finally:
            if not lock.locked():
                self._locks.pop(key, None)


def is_good(held: Held, version: int, now: float) -> bool:
    return now < held.due or (held.version == version and now - held.at < SAME_SECONDS)
