"""A cgroup for each trainer where the machine allows one: limits by the kernel, and an end at one stroke.

Where none can be made (no cgroup v2, or not ours to write) the keeper's sweep is all there is. The
difference shows only when worker and keeper are both killed with -9 at the same moment: then
grandchildren that left the trainer's session live on until the machine is told otherwise. Where
one can be made but carries no limits, `limits.py` watches instead.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from runspine.wire.v1.spec_pb2 import Limits
from services.worker.keeper import kill_cgroup

log = structlog.get_logger()

MIB = 1 << 20
PERIOD = 100_000
CONTROLLERS = ("memory", "pids", "cpu")
# Where the worker itself goes: a cgroup whose children have limits may hold no process.
LEAF = "runspine-worker"


def own_cgroup(mounts: str, membership: str) -> Path | None:
    """Where this process stands in the v2 hierarchy, from /proc/mounts and /proc/self/cgroup."""
    roots = [fields[1] for line in mounts.splitlines() if (fields := line.split())[2:3] == ["cgroup2"]]
    inside = [line[3:] for line in membership.splitlines() if line.startswith("0::/")]
    if not roots or not inside or ".." in inside[0]:
        return None
    return Path(roots[0]) / inside[0].lstrip("/")


def base_cgroup() -> Path | None:
    """The cgroup that ours are made in."""
    try:
        own = own_cgroup(Path("/proc/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return None
    return own.parent if own is not None and own.name == LEAF else own


def claim_subtree() -> None:
    """Once, at the start: let cgroups below ours carry limits, if this subtree is ours alone."""
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
        # Others live in this cgroup too, or it is not ours to divide: back, and watch instead.
        log.info("cgroup.without_limits", reason=str(error))
        with contextlib.suppress(OSError):
            (base / "cgroup.procs").write_text("0")
            (base / LEAF).rmdir()


def make_cgroup(name: str) -> Path | None:
    """A new cgroup beside our own; None when this machine does not let us."""
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
    """Hand the limits to the kernel; the names of those it took."""
    files = {
        "memory": ("memory.max", limits.memory_mib and str(limits.memory_mib * MIB)),
        "processes": ("pids.max", limits.processes and str(limits.processes)),
        "cpus": ("cpu.max", limits.cpus and f"{max(1000, int(limits.cpus * PERIOD))} {PERIOD}"),
    }
    taken = {name for name, (file, value) in files.items() if value and _set(path / file, str(value))}
    if "memory" in taken:
        # No way round by swapping, and no survivors that wait for a dead sibling.
        _set(path / "memory.swap.max", "0")
        _set(path / "memory.oom.group", "1")
    return frozenset(taken)


@dataclass(frozen=True, slots=True)
class Hits:
    """How often the kernel had to hold a cgroup back."""

    oom_kills: int = 0
    refused_forks: int = 0
    memory_peak: int = 0


def hits(path: Path | None) -> Hits:
    if path is None:
        return Hits()
    return Hits(
        _event(path / "memory.events", "oom_kill"),
        _event(path / "pids.events", "max"),
        _number(path / "memory.peak"),
    )


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """What the cgroups above grant this process; 0 means no limit."""

    cpus: float = 0.0
    memory: int = 0


def own_limits() -> OwnLimits:
    """The tightest limits from here to the root."""
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
    """Kill what is left in it and take it away as soon as it is empty. Blocks."""
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
