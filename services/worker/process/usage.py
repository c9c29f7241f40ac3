"""What a trainer uses of its machine: CPU, memory, processes, disk, network and GPUs, as metrics `system/…`.

Of its process tree; CPU time of its cgroup where there is one; GPUs from NVML. What cannot be read is left
out, never 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from runspine.services.worker.process.limits import disk_used, memory_used, thread_count
from runspine.services.worker.process.reaper import descendants
from runspine.services.worker.process.trainer_process import TrainerProcess

MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
# The share of a core that sampling a trainer may take: one that costs more is sampled less often.
MAX_SHARE = 0.001
# Time between looks at all processes of the machine, for new ones of the trainer, and at shared memory.
SCAN_SECONDS = 10.0


class Totals(NamedTuple):
    """Counters since the start; None where they cannot be read."""

    cpu_seconds: float | None
    read_bytes: float | None
    written_bytes: float | None
    received_bytes: float | None
    sent_bytes: float | None


# Metrics that are rates, with what one unit of theirs is.
RATES = {
    "cpu_seconds": ("system/cpu_percent", 0.01),
    "read_bytes": ("system/disk_read_mib_per_second", MIB),
    "written_bytes": ("system/disk_written_mib_per_second", MIB),
    "received_bytes": ("system/network_received_mib_per_second", MIB),
    "sent_bytes": ("system/network_sent_mib_per_second", MIB),
}


def rates(before: Totals, after: Totals, seconds: float) -> dict[str, float]:
    """The counters as metrics per second. One that fell belongs to a process that has ended: left out."""
    found = {}
    for field, (name, unit) in RATES.items():
        first, last = getattr(before, field), getattr(after, field)
        if first is not None and last is not None and last >= first and seconds > 0:
            found[name] = (last - first) / unit / seconds
    return found


class UsageSampler:
    """Samples one trainer. `sample` blocks: call it in a thread."""

    def __init__(self, reaper: int, cgroup: Path | None, run_dir: Path, gpus: Sequence[str]) -> None:
        self._reaper = reaper
        self._cgroup = cgroup
        self._run_dir = run_dir
        self._gpus = gpus
        self._pids = descendants(reaper)
        self._before = self._totals(self._pids)
        self._at = self._started = time.monotonic()
        self._scan_due = self._disk_due = 0.0
        # What is shared is counted once: by how much memory is less than the sum over all processes.
        self._shared = 0
        # CPU seconds of the last sample.
        self.cost = 0.0

    def sample(self) -> dict[str, float]:
        """The metrics since the last sample."""
        began = time.thread_time()
        try:
            return self._sample()
        finally:
            self.cost = time.thread_time() - began

    def _sample(self) -> dict[str, float]:
        now = time.monotonic()
        if now >= self._scan_due:
            self._scan(now)
        # A number above what any machine has: only resident pages are read.
        memory = max(0, memory_used(self._pids, 1 << 62) - self._shared)
        if not memory:
            return {}
        totals = self._totals(self._pids)
        values = rates(self._before, totals, now - self._at)
        self._before, self._at = totals, now
        values["system/memory_mib"] = memory / MIB
        threads = [count for count in map(thread_count, self._pids) if count]
        values["system/processes"], values["system/threads"] = float(len(threads)), float(sum(threads))
        if now >= self._disk_due:
            cost = time.thread_time()
            values["system/disk_used_mib"] = disk_used(self._run_dir) / MIB
            self._disk_due = now + max(SCAN_SECONDS, (time.thread_time() - cost) / MAX_SHARE)
        return values | gpu_metrics(self._gpus)

    def _scan(self, now: float) -> None:
        """Find the processes of the trainer, and how much of their memory they share."""
        cost = time.thread_time()
        before, self._pids = self._pids, descendants(self._reaper)
        if before != self._pids:
            # Their counters so far are no use of the last second.
            self._before, self._at = self._totals(self._pids), now
        resident = memory_used(self._pids, 1 << 62)
        self._shared = max(0, resident - memory_used(self._pids, 0))
        # A trainer that has just begun starts processes.
        wait = min(SCAN_SECONDS, now - self._started)
        self._scan_due = now + max(wait, (time.thread_time() - cost) / MAX_SHARE)

    def _totals(self, pids: list[int]) -> Totals:
        network = _network(pids)
        if self._cgroup and (used := _keyed(self._cgroup / "cpu.stat", "usage_usec")) is not None:
            cpu: float | None = used / 1e6
        else:
            cpu = _total(map(cpu_seconds, pids))
        io = [_io(pid) for pid in pids]
        return Totals(cpu, _total(each[0] for each in io), _total(each[1] for each in io), *network)


def sampler_of(trainer: TrainerProcess, run_dir: Path, environment: Mapping[str, str]) -> UsageSampler:
    """The sampler of a trainer that was started with this environment."""
    gpus = [gpu for gpu in environment["CUDA_VISIBLE_DEVICES"].split(",") if gpu]
    return UsageSampler(trainer.process.pid, trainer.cgroup, run_dir, gpus)


async def report_usage(
    make: Callable[[], UsageSampler], seconds: float, report: Callable[[dict[str, float]], None]
) -> None:
    """Report what the trainer uses at intervals, until cancelled; never when the interval is 0."""
    if not seconds:
        return
    sampler = await asyncio.to_thread(make)
    while True:
        await asyncio.sleep(seconds)
        if values := await asyncio.to_thread(sampler.sample):
            report(values)
        # Beyond its share, it is sampled less often.
        await asyncio.sleep(max(0.0, sampler.cost / MAX_SHARE - seconds))


def gpu_metrics(gpus: Sequence[str]) -> dict[str, float]:
    """Load and memory of each GPU of the run, by its place among them; nothing without NVML."""
    if not gpus:
        return {}
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return {}
    values: dict[str, float] = {}
    try:
        for place, gpu in enumerate(gpus):
            with contextlib.suppress(nvml.NVMLError):
                values |= _gpu(nvml, gpu, f"system/gpu.{place}")
    finally:
        nvml.nvmlShutdown()
    return values


def _gpu(nvml: Any, gpu: str, prefix: str) -> dict[str, float]:
    handle = (
        nvml.nvmlDeviceGetHandleByIndex(int(gpu)) if gpu.isdigit() else nvml.nvmlDeviceGetHandleByUUID(gpu)
    )
    load, memory = nvml.nvmlDeviceGetUtilizationRates(handle), nvml.nvmlDeviceGetMemoryInfo(handle)
    values = {
        f"{prefix}.percent": float(load.gpu),
        f"{prefix}.memory_mib": memory.used / MIB,
        f"{prefix}.memory_percent": 100 * memory.used / memory.total,
    }
    with contextlib.suppress(nvml.NVMLError):
        values[f"{prefix}.watts"] = nvml.nvmlDeviceGetPowerUsage(handle) / 1000
    with contextlib.suppress(nvml.NVMLError):
        values[f"{prefix}.celsius"] = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    return values


def cpu_seconds(pid: int) -> float | None:
    """CPU time of a process and of its children that have ended."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS
    return None


def _io(pid: int) -> tuple[float | None, float | None]:
    """Bytes read from and written to disks."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/io", "rb") as file:
        found = dict(line.split(b": ") for line in file.read().splitlines())
        return float(found.get(b"read_bytes", 0)), float(found.get(b"write_bytes", 0))
    return None, None


def _network(pids: list[int]) -> tuple[float | None, float | None]:
    """Bytes received and sent in the network namespace of the trainer, without loopback."""
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/net/dev") as file:
            rows = [line.partition(":") for line in file.readlines()[2:]]
            fields = [rest.split() for name, _, rest in rows if name.strip() != "lo"]
            return float(sum(int(row[0]) for row in fields)), float(sum(int(row[8]) for row in fields))
    return None, None


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _keyed(file: Path, key: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            word, _, value = line.partition(" ")
            if word == key:
                return int(value)
    return None
