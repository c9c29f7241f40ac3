"""Ends what an earlier worker process left of an attempt, and shows that it is gone.

A reaper that was stopped (SIGSTOP, a debugger, a frozen host) does not notice the end of its worker: it
keeps its lock, and the trainer trains on. The restarted worker finds the processes of the attempt itself:
the cgroup, the process that holds the lock of the reaper, its descendants, and every process whose
environment names the run's directory (a daemon that outlived a killed reaper where there are no cgroups).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from runspine.services.worker.process.cgroup import remove_cgroup
from runspine.services.worker.process.reaper import descendants, kill_cgroup, send

POLL_SECONDS = 0.02


def end_survivors(lock: Path, timeout: float) -> bool:
    """Kill every process of the attempt whose reaper has this lock; whether all are gone in time. Blocks."""
    deadline = time.monotonic() + timeout
    while not _is_gone(lock):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_locked(lock: Path) -> bool:
    """Whether a reaper holds this lock."""
    try:
        with lock.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _is_gone(lock: Path) -> bool:
    """Kill once, and look whether anything is left."""
    try:
        cgroup = lock.read_text().strip()
    except FileNotFoundError:
        cgroup = ""
    if cgroup:
        kill_cgroup(cgroup)
    found = _kill(lock)
    if found or is_locked(lock):
        return False
    if cgroup:
        remove_cgroup(Path(cgroup))
    return True


def _kill(lock: Path) -> set[int]:
    """Stop all processes before killing them: a stopped one cannot fork faster than it is found."""
    stopped: set[int] = set()
    while fresh := _processes(lock) - stopped:
        for pid in fresh:
            send(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        send(pid, signal.SIGKILL)
    return stopped


def _processes(lock: Path) -> set[int]:
    """Living processes of the attempt: the reaper, all below it, and those started for its directory."""
    roots = {pid for pid in _others() if _holds(pid, lock) or _belongs(pid, lock.parent)}
    return roots | {pid for root in roots for pid in descendants(root)}


def _others() -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) != os.getpid() and _is_alive(name):
            yield int(name)


def _is_alive(name: str) -> bool:
    try:
        stat = Path(f"/proc/{name}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _holds(pid: int, lock: Path) -> bool:
    """Whether the process holds the lock; one that only reads the file does not."""
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                same = os.path.samefile(f"/proc/{pid}/fd/{number}", lock)
                if same and b"FLOCK" in Path(f"/proc/{pid}/fdinfo/{number}").read_bytes():
                    return True
    return False


def _belongs(pid: int, run_dir: Path) -> bool:
    """Whether the process was started for this attempt: the directory is the attempt's own."""
    with contextlib.suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return os.fsencode(f"RUNSPINE_RUN_DIR={run_dir}") in variables
    return False
