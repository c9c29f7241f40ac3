"""A stack in the background: detached start, and stop from another process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runspine.embedded.home import Home
from runspine.embedded.logs import open_log
from runspine.embedded.part import PartEvent
from runspine.embedded.plan import StackOptions, source_root
from runspine.embedded.processes import send, wait_until_gone
from runspine.embedded.record import StackRecord, clear_stale, read_record, running_record
from runspine.embedded.supervisor import StartFailedError

STOP_SECONDS = 90.0
WATCHDOG = Path(__file__).with_name("watchdog.py")


def start_detached(home: Home, options: StackOptions, on_event: Callable[[PartEvent], None]) -> StackRecord:
    """Start a supervisor and its watchdog in a session of their own; return when all parts are ready."""
    home.prepare()
    output = home.logs / "detached.log"
    output.unlink(missing_ok=True)
    pid = _spawn(home, options, output)
    try:
        return _await_ready(home, pid, output, on_event)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        # Wait for its end: an `up` right after this must not find it while it stops.
        os.waitpid(pid, 0)
        raise


def _await_ready(home: Home, pid: int, output: Path, on_event: Callable[[PartEvent], None]) -> StackRecord:
    reported: set[str] = set()
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        record = running_record(home)
        if record is not None and record.watchdog == pid:
            _report_ready(record, reported, on_event)
            if record.ready:
                return record
        time.sleep(0.05)
    printed = output.read_text(errors="replace").strip()
    raise StartFailedError(printed or f"the supervisor ended without a message; see {home.logs}")


def _spawn(home: Home, options: StackOptions, output: Path) -> int:
    """Spawn without subprocess, which expects its process to end first."""
    log = open_log(output)
    try:
        return os.posix_spawn(
            sys.executable,
            [
                *(sys.executable, "-I", "-S", str(WATCHDOG)),
                *(sys.executable, "-P", "-m", "runspine.embedded", str(home.path), *_arguments(options)),
            ],
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
    """Stop the stack of this home; its record, or None when none ran."""
    record = _read(home)
    if record is not None:
        if record.watched:
            # It passes the signal on, and starts no other supervisor.
            send(record.watchdog, record.watchdog_identity, signal.SIGTERM)
            wait_until_gone(record.watchdog, record.watchdog_identity, STOP_SECONDS)
            send(record.watchdog, record.watchdog_identity, signal.SIGKILL)
            # The supervisor may have been another one by then.
            record = running_record(home) or record
        send(record.pid, record.identity, signal.SIGTERM)
        if not wait_until_gone(record.pid, record.identity, STOP_SECONDS):
            # The kernel then sends its parts their death signal.
            send(record.pid, record.identity, signal.SIGKILL)
            wait_until_gone(record.pid, record.identity, 5.0)
    if home.stack_file.exists():
        clear_dead(home)
    return record


def _read(home: Home) -> StackRecord | None:
    """The record of a stack that runs, or is about to be started again."""
    record = read_record(home) if home.stack_file.exists() else None
    return record if record is not None and (record.alive or record.watched) else None


def clear_dead(home: Home) -> None:
    """Remove what a killed supervisor left: its record, and a worker that is still stopping."""
    lock = home.lock()
    try:
        clear_stale(home)
    finally:
        os.close(lock)


def _arguments(options: StackOptions) -> list[str]:
    return [
        f"--workers={options.workers}",
        f"--pools={','.join(options.pools)}",
        *([f"--slots={options.slots}"] if options.slots else []),
        *([f"--only={','.join(options.only)}"] if options.only is not None else []),
        *([] if options.use_default_ports else ["--free-ports"]),
        *([f"--listen={options.listen}"] if options.listen else []),
    ]


def _environment() -> dict[str, str]:
    root = source_root()
    if root is None:
        return dict(os.environ)
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _report_ready(record: StackRecord, reported: set[str], on_event: Callable[[PartEvent], None]) -> None:
    for name, part in record.parts.items():
        if part.state == "ready" and name not in reported:
            reported.add(name)
            on_event(PartEvent(name, "ready", part.where))
