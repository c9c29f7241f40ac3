"""Ports of the parts: the default port, or a free one that is remembered."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runspine.embedded.home import read_json, write_json
from runspine.errors import RunspineError

LOOPBACK = "127.0.0.1"
# weed listens for gRPC on each of its ports plus this.
GRPC_OFFSET = 10_000

DEFAULTS = {
    "nats": 4222,
    "nats-monitor": 8222,
    "s3": 8333,
    "s3-filer": 8888,
    "s3-master": 9333,
    "s3-volume": 9340,
    "s3-admin": 23646,
    "orchestrator": 50055,
    "telemetry": 50056,
    "artifacts": 50057,
    "dashboard": 8090,
    "orchestrator-metrics": 9401,
    "telemetry-metrics": 9402,
    "artifacts-metrics": 9403,
    "dashboard-metrics": 9404,
    "notices-metrics": 9405,
    "gateway-metrics": 9406,
    "worker-metrics": 9410,
    **{f"worker-{number}-metrics": 9410 + number for number in range(1, 9)},
}
# Below the kernel's range of ephemeral ports, also with the offset, so that a remembered port is free
# the next time.
FREE_RANGE = range(10_000, 22_000)


def free_range(environment: Mapping[str, str]) -> range:
    """The range of ports to choose from; RUNSPINE_PORTS (10000-12999) separates several stacks."""
    given = environment.get("RUNSPINE_PORTS", "")
    if not given:
        return FREE_RANGE
    first, _, last = given.partition("-")
    if not (first.isdigit() and last.isdigit() and 1024 <= int(first) < int(last) < 55_000):
        raise NoFreePortError(f"RUNSPINE_PORTS {given!r} is not FIRST-LAST, such as 10000-12999")
    return range(int(first), int(last) + 1)


class NoFreePortError(RunspineError):
    """No port could be found."""


@dataclass(slots=True)
class PortBook:
    """Chooses ports, reserves each until its part starts, and remembers them in a file."""

    path: Path
    use_defaults: bool = True
    chosen: dict[str, int] = field(default_factory=dict)
    _remembered: dict[str, int] = field(default_factory=dict)
    _held: dict[int, socket.socket] = field(default_factory=dict)
    _claims: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._remembered = _ports_in(read_json(self.path))

    def choose(self, name: str) -> int:
        """A port for this name, reserved until it is released."""
        if name not in self.chosen:
            candidates = self._candidates(name)
            self.chosen[name] = next(port for port in candidates if self._hold(_ports_of(name, port)))
        return self.chosen[name]

    def save(self) -> None:
        """Write the chosen ports. A name that is not used this time keeps its port."""
        if self._remembered | self.chosen != self._remembered:
            self._remembered |= self.chosen
            write_json(self.path, self._remembered)

    def release(self, names: Iterable[str]) -> None:
        """Close the listeners of these names, so that their part can listen."""
        for name in names:
            for port in _ports_of(name, self.chosen[name]):
                if held := self._held.pop(port, None):
                    held.close()

    def release_all(self) -> None:
        self.release(self.chosen)

    def close(self) -> None:
        """Release all ports and claims, so that other stacks may use them."""
        self.release_all()
        while self._claims:
            self._claims.pop().close()

    def _candidates(self, name: str) -> Iterable[int]:
        if name in self._remembered:
            yield self._remembered[name]
        if self.use_defaults and name in DEFAULTS:
            yield DEFAULTS[name]
        free = free_range(os.environ)
        yield from random.sample(free, min(500, len(free)))
        raise NoFreePortError(f"no free port for {name} between {free.start} and {free.stop}")

    def _hold(self, ports: list[int]) -> bool:
        """Claim and listen on all of them, or on none."""
        with contextlib.ExitStack() as undo:
            try:
                claims = [undo.enter_context(claim(port)) for port in ports]
                taken = {port: undo.enter_context(listen_on(port)) for port in ports}
            except OSError:
                return False
            undo.pop_all()
        self._claims += claims
        self._held |= taken
        return True


def claim(port: int) -> socket.socket:
    """Claim a port against other stacks, also while its part does not listen.

    The claim is a name in the abstract socket namespace, which ends with the process.
    """
    claimed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claimed.bind(f"\0runspine-port-{port}")
    except OSError:
        claimed.close()
        raise
    return claimed


def listen_on(port: int) -> socket.socket:
    """A listening socket; a socket that is only bound does not exclude others."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
        held.listen(1)
    except OSError:
        held.close()
        raise
    return held


def is_free(port: int) -> bool:
    """Whether a port can be listened on."""
    with contextlib.suppress(OSError), listen_on(port):
        return True
    return False


def _ports_of(name: str, port: int) -> list[int]:
    return [port, port + GRPC_OFFSET] if name.startswith("s3") else [port]


def _ports_in(stored: Any) -> dict[str, int]:
    if not isinstance(stored, dict):
        return {}
    return {name: port for name, port in stored.items() if isinstance(port, int) and 0 < port < 65536}
