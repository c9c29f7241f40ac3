"""Waiting runs of each pool in the order in which they are offered, kept up to date run by run. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from runspine.domain.run.attempts import find_attempt
from runspine.domain.run.pool import pool_of
from runspine.domain.run.rest import rests
from runspine.services.orchestrator.core.indexes.sorted_keys import SortedKeys
from runspine.wire.v1.run_pb2 import QUEUED, AttemptHistory, Offer, Run

# Priority (negative: the highest is first), time of queueing, id, attempt.
Rank = tuple[int, int, str, int]


class PoolQueues:
    """Queued runs without a claim, by pool, in order of priority and then of time."""

    def __init__(self) -> None:
        self._pools: dict[str, SortedKeys[Rank]] = {}
        self._places: dict[str, tuple[str, Rank]] = {}
        # Runs that wait for their backoff, with the time at which they are looked at again.
        self._resting: list[tuple[int, str]] = []
        # Pools whose queue has changed since `take_changed`.
        self._changed: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        """Pools with waiting runs."""
        return iter(self._pools)

    def depths(self) -> dict[str, int]:
        return {pool: len(queue) for pool, queue in self._pools.items()}

    def update(self, run: Run, history: AttemptHistory | None, now: int) -> None:
        """A run has changed."""
        place = None
        if run.phase == QUEUED and not _is_claimed(run, history):
            if rests(run, now):
                heappush(self._resting, (run.not_before, run.id))
            else:
                place = pool_of(run), (-run.priority, run.queued_at, run.id, run.attempt)
        if place != self._places.get(run.id):
            self.remove(run.id)
            if place is not None:
                self._add(run.id, *place)

    def remove(self, run_id: str) -> None:
        """A run is not to be offered now."""
        pool, rank = self._places.pop(run_id, ("", None))
        if rank is None:
            return
        queue = self._pools[pool]
        queue.remove(rank)
        if not queue:
            del self._pools[pool]
        self._changed.add(pool)

    def rested(self, now: int) -> list[str]:
        """Runs whose backoff is over: they are to be updated."""
        found = []
        while self._resting and self._resting[0][0] <= now:
            found.append(heappop(self._resting)[1])
        return found

    def take_changed(self) -> set[str]:
        """Pools whose queue has changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def head(self, pool: str, window: int) -> list[Offer]:
        """The offers that should be on the stream, in order: only the first, so that priorities can still
        change."""
        return [
            Offer(run_id=run_id, attempt=attempt, pool=pool, priority=-priority)
            for priority, _, run_id, attempt in islice(self._pools.get(pool, ()), window)
        ]

    def _add(self, run_id: str, pool: str, rank: Rank) -> None:
        self._places[run_id] = pool, rank
        self._pools.setdefault(pool, SortedKeys()).add(rank)
        self._changed.add(pool)


def _is_claimed(run: Run, history: AttemptHistory | None) -> bool:
    return history is not None and find_attempt(history, run.attempt) is not None
