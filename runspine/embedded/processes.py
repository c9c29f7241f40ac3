"""Telling processes apart: a pid alone may belong to another program by now."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil

TETHER = Path(__file__).with_name("tether.py")


def tethered(command: list[str], death_signal: signal.Signals, niceness: int = 0) -> list[str]:
    """The command, made to get this signal when the calling process dies."""
    said = [str(int(death_signal)), str(os.getpid()), str(niceness)]
    return [sys.executable, "-I", "-S", str(TETHER), *said, *command]


def identity_of(pid: int) -> str:
    """A text that no other process of this machine ever had; empty when there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    state, started = fields[0], fields[19]
    return "" if state in "ZX" else f"{boot}/{pid}/{started}"


def is_alive(pid: int, identity: str) -> bool:
    return bool(identity) and identity_of(pid) == identity


def send(pid: int, identity: str, number: signal.Signals) -> None:
    """Signal this very process; nothing happens when it is gone."""
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
    """Whether it is this process that answers there, and not another that was quicker."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)
