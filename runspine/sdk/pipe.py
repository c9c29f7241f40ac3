"""Writes lines to the worker, several at a time: to the inherited descriptor, else to its socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

# Lines wait for this many bytes or seconds: a write costs more than a line.
FULL_BYTES = 128 << 10
MAX_WAIT_SECONDS = 0.1
PIPE_BYTES = 1 << 20
LOCK_NAME = ".telemetry.lock"
# Identity of the pipe, from the worker or the first process of the run. A child that did not inherit the
# descriptor may have another file under the same number.
PIPE_IDENTITY = "RUNSPINE_TELEMETRY_PIPE"
# Path of the worker's socket, for processes that did not inherit the descriptor.
SOCKET_PATH = "RUNSPINE_TELEMETRY_SOCKET"


class Pipe:
    """Pipe to the worker. Never raises; closed at the first error; `dropped` counts undelivered lines.

    Processes that inherited the descriptor share one pipe and take turns; each other one has a connection of
    its own.
    """

    def __init__(self, descriptor: int | None, folder: Path, environment: MutableMapping[str, str]) -> None:
        self._address = environment.get(SOCKET_PATH, "")
        self.open = descriptor is not None or bool(self._address)
        self.dropped = 0
        self.trouble = ""
        self._descriptor = -1 if descriptor is None else descriptor
        self._lock_path = folder / LOCK_NAME
        self._lock_file = -1
        self._connection: socket.socket | None = None
        self._lock = threading.RLock()
        self._pending: list[tuple[Callable[..., str | bytes], tuple[Any, ...]]] = []
        self._size = 0
        self._rest = b""
        # Bytes of it that were written, call by call.
        self._written: list[int] = []
        # The thread that is writing.
        self._writer = 0
        self._written_at = 0.0
        if self.open:
            self._prepare(environment)

    def write(self, line: str) -> None:
        """Queue one line, without its line end. It is written with others soon, or by `flush`."""
        self.write_later(len(line), str, line)

    def write_later(self, size: int, make: Callable[..., str | bytes], *args: Any) -> None:
        """Queue a line of about this size that is formatted when it is written.

        Lines are formatted together: between steps the trainer's own work evicts the code for it from the
        processor's caches.
        """
        if not self.open:
            self.count_missed()
            return
        self._pending.append((make, args))
        self._size += size
        if self._size >= FULL_BYTES or not 0 <= time.monotonic() - self._written_at < MAX_WAIT_SECONDS:
            self.flush()

    @property
    def waiting(self) -> int:
        """How many lines wait to be written."""
        return len(self._pending)

    @property
    def writing(self) -> bool:
        """Whether this thread is in a write; only a signal handler can see that."""
        return self._writer == threading.get_ident()

    def pending(self, make: Callable[..., str | bytes]) -> list[tuple[Any, ...]]:
        """Arguments of the pending lines of this kind, oldest first."""
        return [args for maker, args in self._pending if maker is make]

    def count_missed(self) -> None:
        """Count a line that cannot be written, unless there never was a pipe."""
        if self.trouble:
            self.dropped += 1

    def flush(self) -> None:
        """Write what is pending. A signal handler that interrupts a write leaves its lines to that write."""
        if self.writing:
            return
        with self._lock:
            self._writer = threading.get_ident()
            try:
                self._write_pending()
            except OSError as error:
                self.close(f"{type(error).__name__}: {error}")
            finally:
                self._writer = 0

    def close(self, trouble: str) -> None:
        self.open = False
        self.trouble = self.trouble or trouble
        self.dropped += len(self._pending) + bool(self._rest)
        self._forget()

    def forked(self) -> None:
        """Reset the state after a fork: pending lines are written by the parent."""
        self._forget()
        self._lock = threading.RLock()
        self._writer = 0
        if self._connection is not None:
            # The parent's; this process opens its own when it has something to write.
            self._connection.close()
            self._connection, self._descriptor = None, -1

    def _forget(self) -> None:
        self._pending.clear()
        self._size = 0
        self._rest, self._written = b"", []

    def _prepare(self, environment: MutableMapping[str, str]) -> None:
        trouble = self._inherit(environment)
        if trouble and self._address:
            try:
                self._connect()
            except OSError as error:
                trouble = f"{trouble}; {self._address}: {error.strerror or error}"
            else:
                return
        if trouble:
            self.close(trouble)

    def _inherit(self, environment: MutableMapping[str, str]) -> str:
        """Prepare the inherited descriptor; why it cannot be used, or nothing."""
        if self._descriptor < 0:
            return "no descriptor"
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            return f"descriptor {self._descriptor}: {error.strerror}"
        identity = f"{found.st_dev}:{found.st_ino}"
        if stat.S_ISCHR(found.st_mode) or environment.setdefault(PIPE_IDENTITY, identity) != identity:
            return f"descriptor {self._descriptor} is not the worker's pipe"
        # A larger pipe lets the trainer go on while the reader is busy. Not every kernel grants it.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with contextlib.suppress(OSError):
            self._lock_file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return ""

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Blocking whatever the script has set as the default: the worker is waited for.
            connection.settimeout(None)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIPE_BYTES)
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        self._connection, self._descriptor = connection, connection.fileno()

    def _write_pending(self) -> None:
        if self._descriptor < 0 and self._pending:
            self._connect()
        while self.open and (self._pending or self._rest):
            self._rest += self._make_lines()
            # A write of more than PIPE_BUF is not atomic: other processes of the run wait meanwhile.
            # lockf and not flock: a forked child shares the open file, and so would share the lock.
            if self._lock_file >= 0:
                fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            try:
                self._write_rest()
            finally:
                if self._lock_file >= 0:
                    fcntl.lockf(self._lock_file, fcntl.LOCK_UN)
        self._written_at = time.monotonic()

    def _make_lines(self) -> bytes:
        taken = self._pending[:]
        del self._pending[: len(taken)]
        self._size = 0
        parts: list[bytes] = []
        for make, args in taken:
            try:
                made = make(*args)
                # A frame is bytes, and a line text.
                parts.append(made if isinstance(made, bytes) else (made + "\n").encode("ascii"))
            except Exception as error:  # noqa: BLE001 - one bad value costs its own line
                self.dropped += 1
                self.trouble = f"{type(error).__name__}: {error}"
        return b"".join(parts)

    def _write_rest(self) -> None:
        while (done := sum(self._written)) < len(self._rest):
            try:
                # One call with its result: a signal handler that raises runs before both or after both,
                # so that writing on after it repeats nothing.
                self._written.extend(map(os.write, (self._descriptor,), (memoryview(self._rest)[done:],)))
            except BlockingIOError:
                select.select([], [self._descriptor], [])
        self._rest, self._written = b"", []
