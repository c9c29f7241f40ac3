"""Cores, memory and GPUs of this machine, and the shares that attempts hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from runspine.services.worker.process.cgroup import own_limits
from runspine.services.worker.process.gpu import Gpu
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.spec_pb2 import RunSpec

MIB = 1 << 20
# Sums of fractional cores are not exact.
TOLERANCE = 1e-6


def measure(gpus: list[Gpu]) -> Capacity:
    """Measure the cores, memory and GPUs that the worker may use, within its container's limits."""
    cores, memory = float(len(os.sched_getaffinity(0))), _total_memory()
    limit = own_limits()
    return Capacity(
        cpus=min(cores, limit.cpus or cores),
        memory_mib=min(memory, limit.memory or memory) // MIB,
        gpus=[str(gpu) for gpu in gpus],
    )


def _total_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/meminfo has no MemTotal")


@dataclass(frozen=True, slots=True)
class CapacityShare:
    """The part of the machine that one attempt holds."""

    cpus: float
    memory_mib: int
    gpus: tuple[str, ...]


class CapacityPool:
    """Allocates cores, memory and GPUs to attempts; each GPU to one attempt at a time."""

    def __init__(self, capacity: Capacity, gpus: list[Gpu]) -> None:
        self.capacity = capacity
        self._all = tuple(gpu.id for gpu in gpus)
        self._held: dict[str, CapacityShare] = {}

    def never(self, spec: RunSpec) -> str:
        """Why a run can never fit here; empty when it can."""
        limits = spec.limits
        if spec.gpus > len(self._all):
            return f"needs {_gpus(spec.gpus)}, this worker has {len(self._all) or 'none'}"
        if limits.memory_mib > self.capacity.memory_mib:
            has = self.capacity.memory_mib
            return f"needs {limits.memory_mib:,} MiB of memory, this worker has {has:,}"
        if limits.cpus > self.capacity.cpus + TOLERANCE:
            return f"needs {_cores(limits.cpus)}, this worker has {self.capacity.cpus:g}"
        return ""

    def lacks(self, spec: RunSpec) -> str:
        """Why a run does not fit now; empty when it does."""
        free = self._free_gpus()
        if spec.gpus > len(free):
            return f"needs {_gpus(spec.gpus)}, {len(free)} of {len(self._all)} free"
        memory = self.capacity.memory_mib - sum(share.memory_mib for share in self._held.values())
        if spec.limits.memory_mib > memory:
            needed, has = spec.limits.memory_mib, self.capacity.memory_mib
            return f"needs {needed:,} MiB of memory, {max(memory, 0):,} of {has:,} free"
        cpus = self.capacity.cpus - sum(share.cpus for share in self._held.values())
        if spec.limits.cpus > cpus + TOLERANCE:
            return f"needs {_cores(spec.limits.cpus)}, {max(cpus, 0):g} of {self.capacity.cpus:g} free"
        return ""

    def take(self, name: str, spec: RunSpec) -> CapacityShare:
        """Allocate a share. Call it only after `lacks` returned nothing, without awaiting in between."""
        share = CapacityShare(spec.limits.cpus, spec.limits.memory_mib, self._free_gpus()[: spec.gpus])
        self._held[name] = share
        return share

    def release(self, name: str) -> None:
        """Free the share of an attempt."""
        self._held.pop(name, None)

    def _free_gpus(self) -> tuple[str, ...]:
        taken = {gpu for share in self._held.values() for gpu in share.gpus}
        return tuple(gpu for gpu in self._all if gpu not in taken)


def _cores(count: float) -> str:
    return "1 core" if count == 1 else f"{count:g} cores"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
