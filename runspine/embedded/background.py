"""A stack in the background: starting it detached, and ending it from elsewhere."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runspine.embedded.home import Home
from runspine.embedded.keeper import Event
from runspine.embedded.logs import open_log
from runspine.embedded.plan import Wish, source_root
from runspine.embedded.processes import send, wait_until_gone
from runspine.embedded.record import StackRecord, clear_stale, running_record
from runspine.embedded.supervisor import StartFailed

PATIENCE = 90.0


def start_detached(home: Home, wish: Wish, tell: Callable[[Event], None]) -> StackRecord:
    """Start a supervisor in a session of its own and return when all its parts are ready."""
    home.prepare()
    output = home.logs / "detached.log"
    output.unlink(missing_ok=True)
    pid = _spawn(home, wish, output)
    try:
        return _await_ready(home, pid, output, tell)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        # Nothing is left when the prompt is back: an `up` right after this must not find it half gone.
        os.waitpid(pid, 0)
        raise


def _await_ready(home: Home, pid: int, output: Path, tell: Callable[[Event], None]) -> StackRecord:
    told: set[str] = set()
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        record = running_record(home)
        if record is not None and record.pid == pid:
            _tell_news(record, told, tell)
            if record.ready:
                return record
        time.sleep(0.05)
    said = output.read_text(errors="replace").strip()
    raise StartFailed(said or f"the supervisor ended without a word; see {home.logs}")


def _spawn(home: Home, wish: Wish, output: Path) -> int:
    """Not by subprocess: its handle wants the process to end before it."""
    log = open_log(output)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "runspine.embedded", str(home.path), *_arguments(wish)],
            _environment(),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(log)


def stop_running(home: Home) -> StackRecord | None:
    """End the stack of this home and everything in it; what ran, or None when nothing did."""
    record = running_record(home)
    if record is not None:
        send(record.pid, record.identity, signal.SIGTERM)
        if not wait_until_gone(record.pid, record.identity, PATIENCE):
            # Its parts get their parting signal from the kernel.
            send(record.pid, record.identity, signal.SIGKILL)
            wait_until_gone(record.pid, record.identity, 5.0)
    if home.stack_file.exists():
        clear_dead(home)
    return record


def clear_dead(home: Home) -> None:
    """Remove what a supervisor that was killed has left: its record, and a worker still ending."""
    lock = home.lock()
    try:
        clear_stale(home)
    finally:
        os.close(lock)


def _arguments(wish: Wish) -> list[str]:
    return [
        f"--workers={wish.workers}",
        f"--pools={','.join(wish.pools)}",
        *([f"--slots={wish.slots}"] if wish.slots else []),
        *([f"--only={','.join(wish.only)}"] if wish.only is not None else []),
        *([] if wish.use_default_ports else ["--free-ports"]),
    ]


def _environment() -> dict[str, str]:
    root = source_root()
    if root is None:
        return dict(os.environ)
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _tell_news(record: StackRecord, told: set[str], tell: Callable[[Event], None]) -> None:
    for name, part in record.parts.items():
        if part.state == "ready" and name not in told:
            told.add(name)
            tell(Event(name, "ready", part.where))
