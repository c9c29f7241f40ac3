"""stack.json: the record of the stack that runs in a home."""

from __future__ import annotations

import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runspine.embedded.home import Home, HomeUnusableError, read_json, write_json
from runspine.embedded.processes import is_alive, send, wait_until_gone


@dataclass(slots=True)
class PartRecord:
    """One process as the supervisor last saw it. `state`: starting, ready, waiting or stopped."""

    state: str = "waiting"
    pid: int = 0
    identity: str = ""
    started_at: float = 0.0
    restarts: int = 0
    address: str = ""
    health: str = ""
    trouble: str = ""
    # Whether the stack is ready only with it.
    awaited: bool = True
    litter: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Its address; for a part without one, that of its health."""
        return self.address or self.health.removeprefix("http://").partition("/")[0]


@dataclass(slots=True)
class StackRecord:
    """The supervisor and its parts."""

    pid: int
    identity: str
    started_at: float = field(default_factory=time.time)
    ready: bool = False
    addresses: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    parts: dict[str, PartRecord] = field(default_factory=dict)
    # The process that restarts the supervisor when it was killed.
    watchdog: int = 0
    watchdog_identity: str = ""

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.identity)

    @property
    def watched(self) -> bool:
        """Whether the supervisor is restarted when it is killed."""
        return is_alive(self.watchdog, self.watchdog_identity)

    def write(self, home: Home) -> None:
        pids = {name: part.pid for name, part in self.parts.items() if part.pid}
        write_json(home.stack_file, {**asdict(self), "pids": pids})


def read_record(home: Home) -> StackRecord | None:
    """The content of stack.json, which may be outdated."""
    stored = read_json(home.stack_file)
    if stored is None:
        return None
    try:
        return _parsed(stored)
    except (KeyError, TypeError, AttributeError) as error:
        raise HomeUnusableError(f"{home.stack_file} is not a stack's record; remove it") from error


def _parsed(stored: Any) -> StackRecord:
    return StackRecord(
        pid=stored["pid"],
        identity=stored["identity"],
        started_at=stored["started_at"],
        ready=stored["ready"],
        addresses=stored["addresses"],
        metrics=stored["metrics"],
        parts={name: PartRecord(**part) for name, part in stored["parts"].items()},
        watchdog=stored.get("watchdog", 0),
        watchdog_identity=stored.get("watchdog_identity", ""),
    )


def running_record(home: Home) -> StackRecord | None:
    """The record of the stack that runs here; None when its supervisor has ended."""
    record = read_record(home)
    return record if record is not None and record.alive else None


def clear_stale(home: Home, patience: float = 20.0) -> bool:
    """Stop the processes that a dead supervisor left, and remove its record. Needs the lock of the home."""
    try:
        record = read_record(home)
    except HomeUnusableError:
        home.stack_file.unlink(missing_ok=True)
        return True
    if record is None:
        return False
    for part in record.parts.values():
        send(part.pid, part.identity, signal.SIGTERM)
    deadline = time.monotonic() + patience
    for part in record.parts.values():
        if not wait_until_gone(part.pid, part.identity, max(0.0, deadline - time.monotonic())):
            send(part.pid, part.identity, signal.SIGKILL)
            wait_until_gone(part.pid, part.identity, 5.0)
        for path in part.litter:
            Path(path).unlink(missing_ok=True)
    home.stack_file.unlink(missing_ok=True)
    return True
