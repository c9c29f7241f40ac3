"""Hosts in network namespaces of their own, on one bridge, whose links can be cut, cut one way, or slowed.

Needs root and `ip`, and runs where nothing leads outside: in a network namespace that the test made first
(`own_network`), so that no packet can leave it. A cut is silent, as a pulled cable behind a switch is: no
side gets an error, connections stay open until somebody gives up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# RFC 2544: addresses for tests of networks, routed nowhere.
SUBNET = "198.18.0"
OUTSIDE = f"{SUBNET}.1"
BRIDGE = "rs-bridge"
# Nobody has this address: frames for it are dropped.
NOBODY = "02:00:00:00:00:01"
# A link that is slow queues what it cannot send, up to this long.
SLOW = ("rate", "600kbit", "burst", "16kb", "latency", "3000ms")
MARK = "RUNSPINE_TEST_OWN_NETWORK"
NAMES = Path("/run/netns")


def missing() -> str:
    """Why namespaces cannot be had here; empty when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (iproute2, util-linux)"
    return ""


def own_network(arguments: Sequence[str]) -> int | None:
    """Run this Python with these arguments in a network and mounts of its own; None when it is there already.

    What is mounted and made in there is gone when the last process of it ends.
    """
    if os.environ.get(MARK):
        _ip("link", "set", "lo", "up")
        # Names of namespaces are files: these are seen in here alone.
        NAMES.mkdir(exist_ok=True)
        _run("mount", "-t", "tmpfs", "names", str(NAMES))
        return None
    command = ["unshare", "--net", "--mount", sys.executable, *arguments]
    return subprocess.run(command, env={**os.environ, MARK: "yes"}).returncode


class Network:
    """Hosts by name. The process that makes it is at OUTSIDE."""

    def __init__(self) -> None:
        assert os.environ.get(MARK), "make it inside own_network"
        self._addresses: dict[str, str] = {}
        # The end of each host's cable at the bridge.
        self._ports: dict[str, str] = {}
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{OUTSIDE}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    @property
    def hosts(self) -> list[str]:
        return list(self._addresses)

    def add(self, host: str) -> str:
        """A new host; its address."""
        number = len(self._addresses) + 10
        self._addresses[host], self._ports[host] = f"{SUBNET}.{number}", f"rs-{number}"
        _ip("netns", "add", host)
        _ip("link", "add", self._ports[host], "type", "veth", "peer", "name", "eth0", "netns", host)
        _ip("link", "set", self._ports[host], "master", BRIDGE, "up")
        _ip("-n", host, "address", "add", f"{self._addresses[host]}/24", "dev", "eth0")
        _ip("-n", host, "link", "set", "lo", "up")
        _ip("-n", host, "link", "set", "eth0", "up")
        return self._addresses[host]

    def address(self, host: str) -> str:
        return self._addresses[host]

    def prefix(self, host: str) -> tuple[str, ...]:
        """What the command line of a process on that host begins with; it becomes the process itself."""
        return ("nsenter", f"--net={NAMES / host}")

    @contextlib.contextmanager
    def cut_off(self, host: str) -> Iterator[None]:
        """Nothing reaches the host, and nothing of it reaches others."""
        _ip("link", "set", self._ports[host], "nomaster")
        try:
            yield
        finally:
            _ip("link", "set", self._ports[host], "master", BRIDGE)

    @contextlib.contextmanager
    def one_way(self, source: str, target: str) -> Iterator[None]:
        """What `source` sends to `target` is lost; the way back works."""
        address = self._addresses[target]
        _ip(
            "-n", source, "neighbour", "replace", address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent"
        )
        try:
            yield
        finally:
            _ip("-n", source, "neighbour", "del", address, "dev", "eth0")

    @contextlib.contextmanager
    def parted(self, one: str, other: str) -> Iterator[None]:
        """The two do not reach each other; everybody else reaches both."""
        with self.one_way(one, other), self.one_way(other, one):
            yield

    @contextlib.contextmanager
    def slow(self, host: str) -> Iterator[None]:
        """A narrow link, both ways: packets queue for up to seconds."""
        _run("tc", "qdisc", "add", "dev", self._ports[host], "root", "tbf", *SLOW)
        _run("tc", "-n", host, "qdisc", "add", "dev", "eth0", "root", "tbf", *SLOW)
        try:
            yield
        finally:
            _run("tc", "qdisc", "del", "dev", self._ports[host], "root")
            _run("tc", "-n", host, "qdisc", "del", "dev", "eth0", "root")


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
