"""Whether any worker of a pool is large enough for a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.domain.defaults import DEFAULT_POOL
from runspine.errors import Violation
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.spec_pb2 import RunSpec


def capacity_violations(spec: RunSpec, workers: Iterable[Worker]) -> list[Violation]:
    """Resources that no online worker of the pool has; empty when no worker is online or reports a
    capacity."""
    pool = spec.pool or DEFAULT_POOL
    online = [worker for worker in workers if worker.online and pool in worker.pools]
    if not online or not all(worker.HasField("capacity") for worker in online):
        return []
    machines = [worker.capacity for worker in online]
    if any(fits(spec, machine) for machine in machines):
        return []
    return list(_by_resource(spec, machines, pool)) or [
        Violation(
            "spec.limits",
            f"no worker of pool {pool!r} has all of this at once: "
            f"{spec.gpus} GPUs, {spec.limits.memory_mib:,} MiB of memory, {spec.limits.cpus:g} cores",
        )
    ]


def fits(spec: RunSpec, machine: Capacity) -> bool:
    return (
        spec.gpus <= len(machine.gpus)
        and spec.limits.memory_mib <= machine.memory_mib
        and spec.limits.cpus <= machine.cpus
    )


def _by_resource(spec: RunSpec, machines: list[Capacity], pool: str) -> Iterable[Violation]:
    where = f"of pool {pool!r}"
    gpus = max(len(machine.gpus) for machine in machines)
    if spec.gpus > gpus:
        has = f"the most any has is {gpus}" if gpus else "none has a GPU"
        yield Violation("spec.gpus", f"{spec.gpus} is more than any worker {where} has: {has}")
    memory = max(machine.memory_mib for machine in machines)
    if spec.limits.memory_mib > memory:
        what = f"{spec.limits.memory_mib:,} is more than any worker {where} has: the most is {memory:,} MiB"
        yield Violation("spec.limits.memory_mib", what)
    cpus = max(machine.cpus for machine in machines)
    if spec.limits.cpus > cpus:
        what = f"{spec.limits.cpus:g} is more than any worker {where} has: the most is {cpus:g} cores"
        yield Violation("spec.limits.cpus", what)
