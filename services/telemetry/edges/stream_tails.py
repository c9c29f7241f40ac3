"""Cached batches of runs on the stream after the archive's cursor; a repeated query reads only new ones."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from runspine.services.telemetry.core.batch_numbers import SeenBatches
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.core.visibility import Cutoffs
from runspine.services.telemetry.edges.batches import BatchReader

# A run under way writes some hundred KiB between two commits. What does not fit is read again each time.
MAX_BYTES = 32 << 20
MAX_TAILS = 64


@dataclass(slots=True)
class _CachedTail:
    """A tail up to a position. Valid for one archive cursor and one set of cutoffs."""

    cursor: int
    cutoffs: Cutoffs
    seen: SeenBatches
    position: int
    size: int = 0
    arrivals: list[Arrival] = field(default_factory=list)


class StreamTails:
    """A bounded cache of tails."""

    def __init__(self, batches: BatchReader, max_bytes: int = MAX_BYTES) -> None:
        self._batches = batches
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, str], _CachedTail] = OrderedDict()
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def tail(
        self, run_id: str, kind: str, cursor: int, seen: SeenBatches, cutoffs: Cutoffs
    ) -> list[Arrival]:
        """Every visible batch after the cursor. `seen` holds the archive's batch numbers and is kept."""
        key = (run_id, kind)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                return await self._read(key, _CachedTail(cursor, cutoffs, seen, cursor))
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    async def _read(self, key: tuple[str, str], fresh: _CachedTail) -> list[Arrival]:
        # Removed from the cache while it grows: a cancelled reader must not leave a half-read tail.
        held = self._held.pop(key, None)
        end = await self._batches.end(*key)
        if held is None or not _is_valid(held, fresh, end):
            held = fresh
        if end > held.position:
            found = await self._batches.between(*key, held.position, end, held.seen, held.cutoffs)
            held.arrivals += found
            held.size += sum(arrival.batch.ByteSize() for arrival in found)
            held.position = end
        self._held[key] = held
        while self._held and (len(self._held) > MAX_TAILS or self._size() > self._max_bytes):
            self._held.popitem(last=False)
        return list(held.arrivals)

    def _size(self) -> int:
        return sum(held.size for held in self._held.values())


def _is_valid(held: _CachedTail, fresh: _CachedTail, end: int) -> bool:
    return held.cursor == fresh.cursor and held.cutoffs == fresh.cutoffs and held.position <= end
