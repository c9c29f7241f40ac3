"""Limits on what a trainer takes, beyond time: memory, processes, disk.

The kernel enforces memory and processes where a cgroup carries them; otherwise the worker looks
twice a second and ends what is above. Disk is always watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runspine.wire.v1.facts_pb2 import LIMIT
from runspine.wire.v1.spec_pb2 import Limits
from services.worker.cgroup import Hits, hits
from services.worker.keeper import descendants
from services.worker.verdict import Stop

MIB = 1 << 20
LOOK_SECONDS = 0.5
DISK_SECONDS = 1.0
# A directory that takes long to measure is measured less often.
DISK_SHARE = 10
PAGE = os.sysconf("SC_PAGE_SIZE")


def file_size_limit(limits: Limits) -> int:
    """RLIMIT_FSIZE, in bytes: a backstop with room, because shared memory counts as files too."""
    return (2 * limits.disk_mib + 64) * MIB if limits.disk_mib else 0


def over_memory(used: int, limits: Limits, *, killed: bool = False) -> Stop:
    how = " (ended by the kernel)" if killed else ""
    return Stop(
        LIMIT,
        f"used {_mib(used)} MiB of memory, more than limits.memory_mib: {limits.memory_mib}{how}. "
        "Raise it, or use fewer environments or a smaller replay buffer",
    )


def over_processes(count: int, limits: Limits) -> Stop:
    had = f"had {count}" if count else "wanted more"
    return Stop(
        LIMIT,
        f"{had} processes and threads, more than limits.processes: {limits.processes}. "
        "Raise it, or start fewer",
    )


def over_disk(used: int, limits: Limits) -> Stop:
    return Stop(
        LIMIT,
        f"wrote {_mib(used)} MiB into its directory, more than limits.disk_mib: {limits.disk_mib}. "
        "Raise it, or keep fewer checkpoints and videos",
    )


def over_file_size(limits: Limits) -> Stop:
    return Stop(
        LIMIT,
        f"wrote a file far larger than limits.disk_mib: {limits.disk_mib} allows. Raise it, or write less",
    )


@dataclass(slots=True)
class Guard:
    """Watches one trainer's limits."""

    limits: Limits
    run_dir: Path
    keeper: int
    cgroup: Path | None
    # Names of the limits that the cgroup enforces.
    enforced: frozenset[str]

    def describe(self) -> str:
        """Who sees to which limit, for the run's log; empty when there are none."""
        limits = self.limits
        said = []
        if limits.memory_mib:
            said.append(f"memory {limits.memory_mib} MiB ({self._who('memory')})")
        if limits.processes:
            said.append(f"{limits.processes} processes and threads ({self._who('processes')})")
        if limits.cpus:
            who = "by cgroup" if "cpus" in self.enforced else "by number of threads only: no cgroup here"
            said.append(f"cores {limits.cpus:g} ({who})")
        if limits.disk_mib:
            said.append(f"disk {limits.disk_mib} MiB (watched every second)")
        return f"limits: {', '.join(said)}" if said else ""

    def _who(self, name: str) -> str:
        return "by cgroup" if name in self.enforced else "watched twice a second: no cgroup here"

    async def watch(self, stop: Callable[[Stop], None]) -> None:
        """Look until something is above its limit, and say so once. The kernel's verdicts count too."""
        disk_at = 0.0
        while self.needed:
            found = await asyncio.to_thread(self._look)
            if found is None and self.limits.disk_mib and time.monotonic() >= disk_at:
                began = time.monotonic()
                found = await asyncio.to_thread(self._look_at_disk)
                took = time.monotonic() - began
                disk_at = time.monotonic() + max(DISK_SECONDS - LOOK_SECONDS / 2, DISK_SHARE * took)
            if found is not None:
                stop(found)
                return
            await asyncio.sleep(LOOK_SECONDS)

    @property
    def needed(self) -> bool:
        return bool(self.limits.memory_mib or self.limits.processes or self.limits.disk_mib)

    def verdict(self, number: int, seen: Hits) -> Stop | None:
        """After an end that was not clean: whether a limit caused it, though nobody had seen it. Blocks."""
        if self.limits.memory_mib and seen.oom_kills:
            used = max(seen.memory_peak, self.limits.memory_mib * MIB)
            return over_memory(used, self.limits, killed=True)
        if self.limits.processes and seen.refused_forks:
            return over_processes(0, self.limits)
        if self.limits.disk_mib:
            if number == signal.SIGXFSZ:
                return over_file_size(self.limits)
            return self._look_at_disk()
        return None

    def _look(self) -> Stop | None:
        limits = self.limits
        watch_memory = limits.memory_mib and "memory" not in self.enforced
        watch_processes = limits.processes and "processes" not in self.enforced
        if "processes" in self.enforced and hits(self.cgroup).refused_forks:
            return over_processes(0, limits)
        if not (watch_memory or watch_processes):
            return None
        pids = descendants(self.keeper)
        if watch_processes and (count := sum(map(threads, pids))) > limits.processes:
            return over_processes(count, limits)
        if watch_memory and (used := memory(pids, limits.memory_mib * MIB)) > limits.memory_mib * MIB:
            return over_memory(used, limits)
        return None

    def _look_at_disk(self) -> Stop | None:
        used = disk(self.run_dir)
        return over_disk(used, self.limits) if used > self.limits.disk_mib * MIB else None


def memory(pids: list[int], limit: int) -> int:
    """Bytes these processes hold together. Shared pages are counted once as soon as it matters."""
    resident = {pid: _resident(pid) for pid in pids}
    if sum(resident.values()) <= limit:
        return sum(resident.values())
    return sum(_proportional(pid, resident[pid]) for pid in pids)


def threads(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[17])
    return 0


def disk(folder: Path) -> int:
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
        return int(file.read().split()[1]) * PAGE
    return 0


def _proportional(pid: int, otherwise: int) -> int:
    """A process's fair part of what it shares with others, swapped pages included."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return otherwise
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Pss:", b"SwapPss:")))


def _mib(size: int) -> str:
    return f"{-(-size // MIB):,}"
