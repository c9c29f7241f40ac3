"""What is on the stream behind the archive: of a run that is asked for again, only what is new is read."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from services.telemetry.core.rows import Arrival
from services.telemetry.core.seen import Seen
from services.telemetry.core.visibility import Cutoffs
from services.telemetry.edges.batches import BatchReader

# A run under way writes some hundred KiB between two commits. What does not fit is read again.
MOST_BYTES = 32 << 20
MOST_HELD = 64


@dataclass(slots=True)
class _Held:
    """A tail as far as it was read. Good for one state of the archive and of the run's attempts."""

    cursor: int
    cutoffs: Cutoffs
    seen: Seen
    position: int
    size: int = 0
    arrivals: list[Arrival] = field(default_factory=list)


class Tails:
    def __init__(self, batches: BatchReader, most_bytes: int = MOST_BYTES) -> None:
        self._batches = batches
        self._most_bytes = most_bytes
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def of(self, run_id: str, kind: str, cursor: int, seen: Seen, cutoffs: Cutoffs) -> list[Arrival]:
        """Everything behind the cursor that is shown. `seen`: what the archive has; it is kept."""
        key = (run_id, kind)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                return await self._read(key, _Held(cursor, cutoffs, seen, cursor))
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    async def _read(self, key: tuple[str, str], fresh: _Held) -> list[Arrival]:
        # Taken out while it is added to: a reader that is interrupted half-way leaves nothing half-read.
        held = self._held.pop(key, None)
        end = await self._batches.end(*key)
        if held is None or not _is_good(held, fresh, end):
            held = fresh
        if end > held.position:
            found = await self._batches.between(*key, held.position, end, held.seen, held.cutoffs)
            held.arrivals += found
            held.size += sum(arrival.batch.ByteSize() for arrival in found)
            held.position = end
        self._held[key] = held
        while self._held and (len(self._held) > MOST_HELD or self._size() > self._most_bytes):
            self._held.popitem(last=False)
        return list(held.arrivals)

    def _size(self) -> int:
        return sum(held.size for held in self._held.values())


def _is_good(held: _Held, fresh: _Held, end: int) -> bool:
    return held.cursor == fresh.cursor and held.cutoffs == fresh.cutoffs and held.position <= end
