"""Online workers by pool, runner and size, kept up to date by the facts of each. Pure.

A submit asks how large the workers of a pool are, who could launch a run and how many slots are free: each
answer costs as much as there are different sizes of workers, not as there are workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, merge
from itertools import islice

from runspine.services.orchestrator.core.indexes.runner_catalog import RunnerCatalog
from runspine.services.orchestrator.core.indexes.sorted_keys import SortedKeys
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.spec_pb2 import RunSpec


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What a machine has. Workers of one kind share it."""

    gpus: int
    memory_mib: int
    cpus: float

    @classmethod
    def of(cls, machine: Capacity) -> MachineSize:
        return cls(len(machine.gpus), machine.memory_mib, machine.cpus)

    def fits(self, spec: RunSpec) -> bool:
        return (
            spec.gpus <= self.gpus
            and spec.limits.memory_mib <= self.memory_mib
            and spec.limits.cpus <= self.cpus
        )


# What orders workers that could launch a run: not ready, without a free slot, id.
Rank = tuple[bool, bool, str]


class FreeDisk:
    """The most free bytes on the disk of any worker."""

    def __init__(self) -> None:
        self._free: dict[str, int] = {}
        # Negative, because heapq keeps the smallest first. Entries that no longer hold are passed over.
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        """Workers that report it."""
        return len(self._free)

    def set(self, worker_id: str, free: int | None) -> None:
        if free is None:
            self._free.pop(worker_id, None)
        elif self._free.get(worker_id) != free:
            self._free[worker_id] = free
            heappush(self._heap, (-free, worker_id))
            if len(self._heap) > 2 * len(self._free) + 64:
                self._heap = [(-each, name) for name, each in self._free.items()]
                heapify(self._heap)

    def most(self) -> int:
        """0 without workers."""
        while self._heap and self._free.get(self._heap[0][1]) != -self._heap[0][0]:
            heappop(self._heap)
        return -self._heap[0][0] if self._heap else 0


@dataclass(slots=True)
class ServingPool:
    """Online workers of a pool."""

    # How many of each size; None is a worker that does not report its size.
    sizes: Counter[MachineSize | None] = field(default_factory=Counter)
    # Ids of workers with GPUs.
    with_gpus: SortedKeys[str] = field(default_factory=SortedKeys)
    disk: FreeDisk = field(default_factory=FreeDisk)
    # Workers that have a runner installed, by runner and size, in the order in which they are asked.
    launchers: dict[str, dict[MachineSize | None, SortedKeys[Rank]]] = field(default_factory=dict)
    ready: Counter[str] = field(default_factory=Counter)
    # Slots without a claim.
    free_slots: int = 0

    @property
    def online(self) -> int:
        return self.sizes.total()

    def known_sizes(self) -> list[MachineSize]:
        """The different sizes; empty without workers, or when one does not report its own."""
        return [] if None in self.sizes else [size for size in self.sizes if size is not None]

    def that_could_launch(self, spec: RunSpec, limit: int) -> list[str]:
        """Ids of workers that may claim the run and have its runner: ready ones first, then those with a free
        slot."""
        found = [
            keys
            for size, keys in self.launchers.get(spec.runner, {}).items()
            if size is None or size.fits(spec)
        ]
        return [rank[2] for rank in islice(merge(*found), limit)]


@dataclass(frozen=True, slots=True)
class _Entry:
    """How a worker is listed in its pools."""

    id: str
    pools: tuple[str, ...]
    slots: int
    size: MachineSize | None
    # Each runner, and whether it is not ready.
    runners: tuple[tuple[str, bool], ...]


class Fleet:
    """The known workers, and which of them holds which run."""

    def __init__(self, workers: Iterable[Worker] = ()) -> None:
        self.catalog = RunnerCatalog()
        # Pools that known workers serve, or served when they were online, with how many do.
        self.known_pools: Counter[str] = Counter()
        self._served_by: dict[str, tuple[str, ...]] = {}
        self._pools: dict[str, ServingPool] = {}
        self._entries: dict[str, _Entry] = {}
        self._claims: Counter[str] = Counter()
        self._holders: dict[str, str] = {}
        for worker in workers:
            self.update(worker)

    def __iter__(self) -> Iterator[str]:
        """Pools with an online worker."""
        return iter(self._pools)

    def pool(self, name: str) -> ServingPool:
        """The workers of a pool; an empty one when there are none."""
        return self._pools.get(name) or ServingPool()

    def update(self, worker: Worker) -> None:
        """A worker came online, went offline or changed what it offers."""
        self.catalog.update(worker)
        pools = tuple(dict.fromkeys(worker.pools))
        self._note_pools(worker.id, pools)
        if before := self._entries.pop(worker.id, None):
            self._unlist(before)
        if worker.online:
            size = MachineSize.of(worker.capacity) if worker.HasField("capacity") else None
            runners = {info.name: bool(info.not_ready) for info in worker.runners}
            self._entries[worker.id] = entry = _Entry(
                worker.id, pools, worker.slots, size, tuple(runners.items())
            )
            self._list(entry)
            self.measured(worker)

    def measured(self, worker: Worker) -> None:
        """A heartbeat brought the state of the machine."""
        entry = self._entries.get(worker.id)
        free = worker.machine.disk_free if worker.machine.HasField("disk_free") else None
        for name in entry.pools if entry else ():
            self._pools[name].disk.set(worker.id, free)

    def hold(self, run_id: str, worker_id: str) -> None:
        """The worker that holds a run now; empty when none does."""
        before = self._holders.get(run_id, "")
        if before == worker_id:
            return
        if before:
            self._claim(before, -1)
        if worker_id:
            self._holders[run_id] = worker_id
            self._claim(worker_id, 1)
        else:
            del self._holders[run_id]

    @property
    def online(self) -> int:
        """Workers that are online."""
        return len(self._entries)

    def _note_pools(self, worker_id: str, pools: tuple[str, ...]) -> None:
        before = self._served_by.get(worker_id, ())
        self._served_by[worker_id] = pools
        for name in pools:
            self.known_pools[name] += 1
        for name in before:
            self.known_pools[name] -= 1
            if not self.known_pools[name]:
                del self.known_pools[name]

    def _claim(self, worker_id: str, change: int) -> None:
        count = self._claims[worker_id]
        self._claims[worker_id] += change
        if not self._claims[worker_id]:
            del self._claims[worker_id]
        entry = self._entries.get(worker_id)
        if entry is None:
            return
        free = max(0, entry.slots - count), max(0, entry.slots - count - change)
        for name in entry.pools:
            pool = self._pools[name]
            pool.free_slots += free[1] - free[0]
            if bool(free[0]) != bool(free[1]):
                for runner, not_ready in entry.runners:
                    ranks = pool.launchers[runner][entry.size]
                    ranks.remove((not_ready, not free[0], entry.id))
                    ranks.add((not_ready, not free[1], entry.id))

    def _free(self, entry: _Entry) -> int:
        return max(0, entry.slots - self._claims[entry.id])

    def _list(self, entry: _Entry) -> None:
        free = self._free(entry)
        for name in entry.pools:
            pool = self._pools.setdefault(name, ServingPool())
            pool.sizes[entry.size] += 1
            pool.free_slots += free
            if entry.size and entry.size.gpus:
                pool.with_gpus.add(entry.id)
            for runner, not_ready in entry.runners:
                pool.ready[runner] += not not_ready
                sizes = pool.launchers.setdefault(runner, {})
                sizes.setdefault(entry.size, SortedKeys()).add((not_ready, not free, entry.id))

    def _unlist(self, entry: _Entry) -> None:
        free = self._free(entry)
        for name in entry.pools:
            pool = self._pools[name]
            pool.sizes[entry.size] -= 1
            if not pool.sizes[entry.size]:
                del pool.sizes[entry.size]
            pool.free_slots -= free
            pool.disk.set(entry.id, None)
            if entry.size and entry.size.gpus:
                pool.with_gpus.remove(entry.id)
            for runner, not_ready in entry.runners:
                pool.ready[runner] -= not not_ready
                ranks = pool.launchers[runner][entry.size]
                ranks.remove((not_ready, not free, entry.id))
                if not ranks:
                    del pool.launchers[runner][entry.size]
            if not pool.sizes:
                del self._pools[name]
