"""A cgroup v2 for each trainer where the machine allows one: kernel limits, and one kill for all processes.

Without one (no cgroup v2, or no permission) only the reaper kills descendants. The difference shows when
worker and reaper are both killed with SIGKILL at the same moment: grandchildren that left the trainer's
session then survive. A cgroup without limits is complemented by polling in `limits.py`.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from runspine.services.worker.process.reaper import kill_cgroup
from runspine.wire.v1.spec_pb2 import Limits

log = structlog.get_logger()

MIB = 1 << 20
PERIOD = 100_000
CONTROLLERS = ("memory", "pids", "cpu")
# Holds the worker itself: a cgroup whose children have limits may hold no process.
LEAF = "runspine-worker"


def own_cgroup(mounts: str, membership: str) -> Path | None:
    """The cgroup v2 of this process, from /proc/mounts and /proc/self/cgroup."""
    roots = [fields[1] for line in mounts.splitlines() if (fields := line.split())[2:3] == ["cgroup2"]]
    inside = [line[3:] for line in membership.splitlines() if line.startswith("0::/")]
    if not roots or not inside or ".." in inside[0]:
        return None
    return Path(roots[0]) / inside[0].lstrip("/")


def base_cgroup() -> Path | None:
    """The cgroup in which cgroups of trainers are created."""
    try:
        own = own_cgroup(Path("/proc/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return None
    return own.parent if own is not None and own.name == LEAF else own


def claim_subtree() -> None:
    """Enable limits for child cgroups once at the start, if no other process uses this subtree."""
    base = base_cgroup()
    if base is None:
        return
    try:
        offered = (base / "cgroup.controllers").read_text().split()
        wanted = [name for name in CONTROLLERS if name in offered]
        if not wanted:
            return
        (base / LEAF).mkdir(exist_ok=True)
        (base / LEAF / "cgroup.procs").write_text("0")
        (base / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
    except OSError as error:
        # Other processes are in this cgroup, or it is not delegated: undo, and poll limits instead.
        log.info("cgroup.without_limits", reason=str(error))
        with contextlib.suppress(OSError):
            (base / "cgroup.procs").write_text("0")
            (base / LEAF).rmdir()


def make_cgroup(name: str) -> Path | None:
    """A new cgroup next to the worker's own; None when this machine does not allow it."""
    base = base_cgroup()
    if base is None:
        return None
    made = base / f"runspine-{name}-{os.getpid()}"
    try:
        made.mkdir(exist_ok=True)
    except OSError:
        return None
    if (made / "cgroup.kill").exists():
        return made
    remove_cgroup(made)
    return None


def set_limits(path: Path, limits: Limits) -> frozenset[str]:
    """Set the limits in a cgroup; the names of those that the kernel accepted."""
    files = {
        "memory": ("memory.max", limits.memory_mib and str(limits.memory_mib * MIB)),
        "processes": ("pids.max", limits.processes and str(limits.processes)),
        "cpus": ("cpu.max", limits.cpus and f"{max(1000, int(limits.cpus * PERIOD))} {PERIOD}"),
    }
    accepted = {name for name, (file, value) in files.items() if value and _set(path / file, str(value))}
    if "memory" in accepted:
        # No swapping around the limit, and no survivors that wait for a killed sibling.
        _set(path / "memory.swap.max", "0")
        _set(path / "memory.oom.group", "1")
    return frozenset(accepted)


@dataclass(frozen=True, slots=True)
class Hits:
    """How often the kernel enforced the limits of a cgroup."""

    oom_kills: int = 0
    refused_forks: int = 0
    memory_peak: int = 0


def hits(path: Path | None) -> Hits:
    """Read the counters of a cgroup."""
    if path is None:
        return Hits()
    return Hits(
        _event(path / "memory.events", "oom_kill"),
        _event(path / "pids.events", "max"),
        _number(path / "memory.peak"),
    )


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """Limits that the parent cgroups impose on this process; 0 means no limit."""

    cpus: float = 0.0
    memory: int = 0


def own_limits() -> OwnLimits:
    """The lowest limits from this cgroup to the root."""
    cpus: list[float] = []
    memory: list[int] = []
    here = base_cgroup()
    while here is not None and (here / "cgroup.procs").exists():
        if size := _number(here / "memory.max"):
            memory.append(size)
        quota, _, period = _text(here / "cpu.max").partition(" ")
        if quota.isdigit() and period.strip().isdigit():
            cpus.append(int(quota) / int(period))
        here = here.parent
    return OwnLimits(min(cpus, default=0.0), min(memory, default=0))


def remove_cgroup(path: Path, timeout: float = 2.0) -> None:
    """Kill the processes in it and remove it as soon as it is empty. Blocks."""
    deadline = time.monotonic() + timeout
    kill_cgroup(str(path))
    while path.exists():
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)


def _set(file: Path, value: str) -> bool:
    # Opened without creating: a missing controller is a missing file, and must stay one.
    try:
        descriptor = os.open(file, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _number(file: Path) -> int:
    text = _text(file).strip()
    return int(text) if text.isdigit() else 0


def _event(file: Path, name: str) -> int:
    for line in _text(file).splitlines():
        word, _, count = line.partition(" ")
        if word == name and count.isdigit():
            return int(count)
    return 0
