"""Whether any worker of a pool is large enough for a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.domain.defaults import DEFAULT_POOL
from runspine.errors import Violation
from runspine.services.orchestrator.core.indexes.fleet import Fleet, MachineSize
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec

MIB = 1 << 20
# A worker needs room for the archive of a dataset and for its files.
DATASET_COPIES = 2


def capacity_violations(spec: RunSpec, fleet: Fleet) -> list[Violation]:
    """Resources that no online worker of the pool has; empty when no worker is online or reports a
    capacity."""
    pool = spec.pool or DEFAULT_POOL
    sizes = fleet.pool(pool).known_sizes()
    if not sizes or any(size.fits(spec) for size in sizes):
        return []
    return list(_by_resource(spec, sizes, pool)) or [
        Violation(
            "spec.limits",
            f"no worker of pool {pool!r} has all of this at once: "
            f"{spec.gpus} GPUs, {spec.limits.memory_mib:,} MiB of memory, {spec.limits.cpus:g} cores",
        )
    ]


def disk_notices(spec: RunSpec, fleet: Fleet) -> list[str]:
    """What a run needs of a disk and no online worker of its pool has free now; nothing while unknown.

    Notices and no violations: directories of ended runs and cached datasets may be removed in time.
    """
    pool = spec.pool or DEFAULT_POOL
    serving = fleet.pool(pool)
    if not serving.online or len(serving.disk) < serving.online:
        return []
    most = serving.disk.most()
    has = f"no worker of pool {pool!r} has that much free now: the most is {_mib(most)} MiB"
    notices = []
    if (needed := spec.dataset.size * DATASET_COPIES) > most:
        name = spec.dataset.name or spec.dataset.digest[:12]
        notices.append(
            f"dataset {name} needs {_mib(needed)} MiB of disk unless a worker has it already, and {has}"
        )
    if (limit := spec.limits.disk_mib * MIB) > most:
        notices.append(f"limits.disk_mib allows {_mib(limit)} MiB, and {has}")
    return notices


def unused_gpu_notices(spec: RunSpec, info: RunnerInfo | None, fleet: Fleet) -> list[str]:
    """Whether a training that could use a GPU asks for none although workers of its pool have some."""
    if info is None or not info.uses_gpu or info.takes_command or spec.gpus or spec.mode not in (0, TRAIN):
        return []
    if "cuda" in spec.params and not spec.params["cuda"].boolean:
        return []
    with_gpu = next(iter(fleet.pool(spec.pool or DEFAULT_POOL).with_gpus), "")
    threads = max(1, int(spec.limits.cpus))
    count = "1 thread" if threads == 1 else f"{threads} threads"
    notice = (
        f"gpus is 0: it trains on the CPU with {count} (limits.cpus), and worker {with_gpu} has a GPU. "
        "Set gpus: 1 to use it"
    )
    return [notice] if with_gpu else []


def _mib(size: int) -> str:
    return f"{size // MIB:,}"


def _by_resource(spec: RunSpec, sizes: list[MachineSize], pool: str) -> Iterable[Violation]:
    where = f"of pool {pool!r}"
    gpus = max(size.gpus for size in sizes)
    if spec.gpus > gpus:
        has = f"the most any has is {gpus}" if gpus else "none has a GPU"
        yield Violation("spec.gpus", f"{spec.gpus} is more than any worker {where} has: {has}")
    memory = max(size.memory_mib for size in sizes)
    if spec.limits.memory_mib > memory:
        what = f"{spec.limits.memory_mib:,} is more than any worker {where} has: the most is {memory:,} MiB"
        yield Violation("spec.limits.memory_mib", what)
    cpus = max(size.cpus for size in sizes)
    if spec.limits.cpus > cpus:
        what = f"{spec.limits.cpus:g} is more than any worker {where} has: the most is {cpus:g} cores"
        yield Violation("spec.limits.cpus", what)
