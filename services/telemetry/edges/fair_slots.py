"""Slots for work that is expensive: one at a time for each caller, and callers take turns."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runspine.rpc.errors import LimitError


class FairSlots:
    """So many slots, of which a caller holds one at a time. Who waits longest without a turn is next."""

    def __init__(self, slots: int, max_waiting: int) -> None:
        self._free = slots
        self._max_waiting = max_waiting
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Wait for a slot. Raises LimitError."""
        await self._take(caller)
        try:
            yield
        finally:
            self._give_back(caller)

    async def _take(self, caller: str) -> None:
        queue = self._waiting.setdefault(caller, deque())
        if len(queue) >= self._max_waiting:
            raise LimitError(
                f"{len(queue)} queries of yours wait already, and {self._max_waiting} may: wait for "
                "them to end, or have the operator raise RUNSPINE_SQL_WAITING"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(caller)
            else:
                queue.remove(turn)
                self._forget(caller)
            raise

    def _give_back(self, caller: str) -> None:
        self._free += 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        self._serve()

    def _serve(self) -> None:
        for caller in list(self._waiting):
            if not self._free:
                return
            if self._held[caller] or not self._waiting[caller]:
                continue
            self._free -= 1
            self._held[caller] += 1
            self._waiting[caller].popleft().set_result(None)
            self._waiting.move_to_end(caller)
            self._forget(caller)

    def _forget(self, caller: str) -> None:
        if caller in self._waiting and not self._waiting[caller]:
            del self._waiting[caller]
