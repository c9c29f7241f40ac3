"""Limits of a trainer other than time: memory, processes, disk.

The kernel enforces memory and processes where the cgroup has the controllers; otherwise the worker polls
twice a second and stops a trainer that is above. Disk is always polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runspine.services.worker.facts.outcome import Stop
from runspine.services.worker.process.cgroup import Hits, hits
from runspine.services.worker.process.reaper import descendants
from runspine.wire.v1.facts_pb2 import LIMIT
from runspine.wire.v1.spec_pb2 import Limits

MIB = 1 << 20
POLL_SECONDS = 0.5
DISK_SECONDS = 1.0
# A directory that takes long to measure is measured less often.
DISK_SHARE = 10
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def file_size_limit(limits: Limits) -> int:
    """RLIMIT_FSIZE in bytes: a generous upper bound, because shared memory counts as files too."""
    return (2 * limits.disk_mib + 64) * MIB if limits.disk_mib else 0


def bounded(limits: Limits, most: Limits) -> Limits:
    """The limits of a spec, none above what the worker allows any run. Pure."""
    found = Limits()
    found.CopyFrom(limits)
    found.processes = _lower(limits.processes, most.processes)
    found.disk_mib = _lower(limits.disk_mib, most.disk_mib)
    return found


def _lower(wanted: int, most: int) -> int:
    """The lower of two limits, of which 0 is none."""
    return min(wanted, most) if wanted and most else wanted or most


def over_memory(used: int, limits: Limits, *, killed: bool = False) -> Stop:
    """Stop for limits.memory_mib."""
    how = " (ended by the kernel)" if killed else ""
    return Stop(
        LIMIT,
        f"used {_mib(used)} MiB of memory, more than limits.memory_mib: {limits.memory_mib}{how}. "
        "Raise it, or use fewer environments or a smaller replay buffer",
    )


def over_processes(count: int, limits: Limits, asked: Limits) -> Stop:
    """Stop for limits.processes, or for what the worker allows."""
    had = f"had {count}" if count else "wanted more"
    limit, remedy = _origin("processes", limits.processes, asked.processes)
    return Stop(LIMIT, f"{had} processes and threads, more than {limit}. {remedy}, or start fewer")


def over_disk(used: int, limits: Limits, asked: Limits) -> Stop:
    """Stop for limits.disk_mib, or for what the worker allows."""
    limit, remedy = _origin("disk_mib", limits.disk_mib, asked.disk_mib)
    return Stop(
        LIMIT,
        f"wrote {_mib(used)} MiB into its directory, more than {limit}. "
        f"{remedy}, or keep fewer checkpoints and videos",
    )


def over_file_size(limits: Limits, asked: Limits) -> Stop:
    """Stop for a file that reached RLIMIT_FSIZE."""
    limit, remedy = _origin("disk_mib", limits.disk_mib, asked.disk_mib)
    return Stop(LIMIT, f"wrote a file far larger than {limit} allows. {remedy}, or write less")


def _origin(name: str, limit: int, asked: int) -> tuple[str, str]:
    """Which limit it is, and who can raise it."""
    if limit == asked:
        return f"limits.{name}: {limit}", "Raise it"
    return f"RUNSPINE_WORKER_{name.upper()}: {limit}", "Ask the operator of the worker to raise it"


@dataclass(slots=True)
class LimitGuard:
    """Enforces the limits of one trainer that the kernel does not: `limits`, of which its spec asked some."""

    limits: Limits
    asked: Limits
    run_dir: Path
    reaper: int
    cgroup: Path | None
    # Names of the limits that the cgroup enforces.
    enforced: frozenset[str]

    def describe(self) -> str:
        """How each limit of the spec is enforced, for the run's log; empty when it has none."""
        limits = self.asked
        parts = []
        if limits.memory_mib:
            parts.append(f"memory {limits.memory_mib} MiB ({self._enforced_by('memory')})")
        if limits.processes:
            parts.append(f"{limits.processes} processes and threads ({self._enforced_by('processes')})")
        if limits.cpus:
            how = "by cgroup" if "cpus" in self.enforced else "by number of threads only: no cgroup here"
            parts.append(f"cores {limits.cpus:g} ({how})")
        if limits.disk_mib:
            parts.append(f"disk {limits.disk_mib} MiB (watched every second)")
        return f"limits: {', '.join(parts)}" if parts else ""

    def _enforced_by(self, name: str) -> str:
        return "by cgroup" if name in self.enforced else "watched twice a second: no cgroup here"

    async def watch(self, stop: Callable[[Stop], None]) -> None:
        """Poll until a limit is exceeded, and call `stop` once. Limits enforced by the kernel count too."""
        disk_at = 0.0
        while self.needed:
            found = await asyncio.to_thread(self._check)
            if found is None and self.limits.disk_mib and time.monotonic() >= disk_at:
                began = time.monotonic()
                found = await asyncio.to_thread(self._check_disk)
                took = time.monotonic() - began
                disk_at = time.monotonic() + max(DISK_SECONDS - POLL_SECONDS / 2, DISK_SHARE * took)
            if found is not None:
                stop(found)
                return
            await asyncio.sleep(POLL_SECONDS)

    @property
    def needed(self) -> bool:
        """Whether the spec has limits to enforce."""
        return bool(self.limits.memory_mib or self.limits.processes or self.limits.disk_mib)

    def find_cause(self, number: int, seen: Hits) -> Stop | None:
        """Whether a limit that no poll saw exceeded caused an unclean end. Blocks."""
        if self.limits.memory_mib and seen.oom_kills:
            used = max(seen.memory_peak, self.limits.memory_mib * MIB)
            return over_memory(used, self.limits, killed=True)
        if self.limits.processes and seen.refused_forks:
            return over_processes(0, self.limits, self.asked)
        if self.limits.disk_mib:
            if number == signal.SIGXFSZ:
                return over_file_size(self.limits, self.asked)
            return self._check_disk()
        return None

    def _check(self) -> Stop | None:
        limits = self.limits
        watch_memory = limits.memory_mib and "memory" not in self.enforced
        watch_processes = (
            limits.processes and "processes" not in self.enforced and threads_of_machine() > limits.processes
        )
        if "processes" in self.enforced and hits(self.cgroup).refused_forks:
            return over_processes(0, limits, self.asked)
        if not (watch_memory or watch_processes):
            return None
        pids = descendants(self.reaper)
        if watch_processes and (count := sum(map(thread_count, pids))) > limits.processes:
            return over_processes(count, limits, self.asked)
        if watch_memory and (used := memory_used(pids, limits.memory_mib * MIB)) > limits.memory_mib * MIB:
            return over_memory(used, limits)
        return None

    def _check_disk(self) -> Stop | None:
        used = disk_used(self.run_dir)
        return over_disk(used, self.limits, self.asked) if used > self.limits.disk_mib * MIB else None


def memory_used(pids: list[int], limit: int) -> int:
    """Bytes of memory of these processes. Above the limit, shared pages are counted once."""
    resident = {pid: _resident(pid) for pid in pids}
    if sum(resident.values()) <= limit:
        return sum(resident.values())
    return sum(_proportional(pid, resident[pid]) for pid in pids)


def threads_of_machine() -> int:
    """Number of threads of all processes, by one read: no run can have more."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, IndexError, ValueError):
        return sys.maxsize


def thread_count(pid: int) -> int:
    """Number of threads of a process; 0 when it is gone."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[17])
    return 0


def disk_used(folder: Path) -> int:
    """Bytes that a directory takes on disk. Links are not followed, hard links count once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    waiting = [os.fspath(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if (about.st_dev, about.st_ino) not in seen:
                        total += about.st_blocks * 512
                    if about.st_nlink > 1:
                        seen.add((about.st_dev, about.st_ino))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
    return 0


def _proportional(pid: int, otherwise: int) -> int:
    """Proportional set size of a process, swapped pages included."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return otherwise
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Pss:", b"SwapPss:")))


def _mib(size: int) -> str:
    return f"{-(-size // MIB):,}"
