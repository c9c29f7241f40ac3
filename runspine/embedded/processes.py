"""Identity of processes: a pid alone may belong to another program by now."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil

TETHER = Path(__file__).with_name("tether.py")


def tethered(command: list[str], death_signal: signal.Signals, niceness: int = 0) -> list[str]:
    """The command, wrapped so that it gets this signal when the calling process ends."""
    arguments = [str(int(death_signal)), str(os.getpid()), str(niceness)]
    return [sys.executable, "-I", "-S", str(TETHER), *arguments, *command]


def identity_of(pid: int) -> str:
    """A text that is unique to a process on this machine; empty when it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    state, started = fields[0], fields[19]
    return "" if state in "ZX" else f"{boot}/{pid}/{started}"


def is_alive(pid: int, identity: str) -> bool:
    """Whether the pid still belongs to the process of this identity."""
    return bool(identity) and identity_of(pid) == identity


def send(pid: int, identity: str, number: signal.Signals) -> None:
    """Send a signal to this process; does nothing when it has ended."""
    if is_alive(pid, identity):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def wait_until_gone(pid: int, identity: str, timeout: float) -> bool:
    """Whether the process ended in time."""
    deadline = time.monotonic() + timeout
    while is_alive(pid, identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def listens(pid: int, port: int) -> bool:
    """Whether this process, and no other, listens on a port."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)
