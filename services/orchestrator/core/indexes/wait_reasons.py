"""Why workers did not claim queued runs that they were offered. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from heapq import heappop, heappush

# How long a worker's reason is shown after its last heartbeat.
MAX_AGE_MICROS = 15_000_000


class WaitReasons:
    """The newest report of each worker, and how many runs of each pool no worker had room for."""

    def __init__(self) -> None:
        # By run, then by worker: the reason, and when it was reported.
        self._runs: dict[str, dict[str, tuple[str, int]]] = {}
        self._workers: dict[str, set[str]] = {}
        # Runs that count, with their pool; each has one entry in the heap, at a time when it may be too old.
        self._pools: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._ages: list[tuple[int, str]] = []

    def report(self, worker_id: str, reasons: Mapping[str, str], pools: Mapping[str, str], at: int) -> None:
        """Replace what a worker reported before; `pools` has the pool of each run."""
        for run_id in self._workers.pop(worker_id, set()) - reasons.keys():
            if by_worker := self._runs.get(run_id):
                by_worker.pop(worker_id, None)
                if not by_worker:
                    self.drop(run_id)
        if not reasons:
            return
        self._workers[worker_id] = set(reasons)
        for run_id, why in reasons.items():
            self._runs.setdefault(run_id, {})[worker_id] = (why, at)
            if run_id not in self._pools:
                self._pools[run_id] = pools[run_id]
                self._counts[pools[run_id]] += 1
                heappush(self._ages, (at + MAX_AGE_MICROS, run_id))

    def drop(self, run_id: str) -> None:
        """The run no longer waits."""
        self._runs.pop(run_id, None)
        self._uncount(run_id)

    def of(self, run_id: str, now: int) -> dict[str, str]:
        """The reasons by worker that are recent."""
        reported = self._runs.get(run_id, {})
        return {worker: why for worker, (why, at) in reported.items() if now - at < MAX_AGE_MICROS}

    def counts(self, now: int) -> Counter[str]:
        """By pool: runs that a worker has seen and has no room for."""
        while self._ages and self._ages[0][0] <= now:
            _, run_id = heappop(self._ages)
            newest = max((at for _, at in self._runs.get(run_id, {}).values()), default=0) + MAX_AGE_MICROS
            if run_id in self._pools and newest > now:
                heappush(self._ages, (newest, run_id))
            else:
                self._uncount(run_id)
        return self._counts

    def _uncount(self, run_id: str) -> None:
        if pool := self._pools.pop(run_id, ""):
            self._counts[pool] -= 1
            if not self._counts[pool]:
                del self._counts[pool]
