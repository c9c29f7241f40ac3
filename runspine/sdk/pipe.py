"""The way out of the trainer: lines gathered and written to the worker's descriptor."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import threading
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

# Lines wait until so many bytes or seconds have come together: a write costs more than a line.
FULL_BYTES = 128 << 10
LONGEST_WAIT = 0.1
PIPE_BYTES = 1 << 20
LOCK_NAME = ".telemetry.lock"
# Which pipe the descriptor was when the first process of the run looked. A child that did not
# inherit it may have something else under the same number.
PIPE_IDENTITY = "RUNSPINE_TELEMETRY_PIPE"


class Pipe:
    """Never raises. Closed for good at the first error; `dropped` counts what was not delivered."""

    def __init__(self, descriptor: int | None, folder: Path, environment: MutableMapping[str, str]) -> None:
        self.open = descriptor is not None
        self.dropped = 0
        self.trouble = ""
        self._descriptor = -1 if descriptor is None else descriptor
        self._lock_path = folder / LOCK_NAME
        self._lock_file = -1
        self._lock = threading.RLock()
        self._pending: list[tuple[Callable[..., str], tuple[Any, ...]]] = []
        self._size = 0
        self._rest = b""
        # How much of it has been written, call by call.
        self._written: list[int] = []
        # The thread that is writing.
        self._writer = 0
        self._written_at = 0.0
        if self.open:
            self._prepare(environment)

    def say(self, line: str) -> None:
        """Take one line, without its end. Written with others soon, or by `flush`."""
        self.later(len(line), str, line)

    def later(self, size: int, make: Callable[..., str], *args: Any) -> None:
        """Take a line of about this size that is made when it is written.

        Made together and not where they arise: the trainer's own doings in between leave little of the
        code for it in the processor's caches.
        """
        if not self.open:
            self.miss()
            return
        self._pending.append((make, args))
        self._size += size
        if self._size >= FULL_BYTES or not 0 <= time.monotonic() - self._written_at < LONGEST_WAIT:
            self.flush()

    @property
    def writing(self) -> bool:
        """In the middle of a write of this thread: only a signal handler can see that."""
        return self._writer == threading.get_ident()

    def waiting(self, make: Callable[..., str]) -> list[tuple[Any, ...]]:
        """What lines of this kind will be made of, oldest first."""
        return [args for maker, args in self._pending if maker is make]

    def miss(self) -> None:
        """Count what could not be said, unless nobody ever listened."""
        if self.trouble:
            self.dropped += 1

    def flush(self) -> None:
        """Write what waits. A signal handler that comes here in mid-write leaves its lines to that write."""
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
        """In a child: what waits here is the parent's to say."""
        self._forget()
        self._lock = threading.RLock()
        self._writer = 0

    def _forget(self) -> None:
        self._pending.clear()
        self._size = 0
        self._rest, self._written = b"", []

    def _prepare(self, environment: MutableMapping[str, str]) -> None:
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            self.close(f"descriptor {self._descriptor}: {error.strerror}")
            return
        identity = f"{found.st_dev}:{found.st_ino}"
        if stat.S_ISCHR(found.st_mode) or environment.setdefault(PIPE_IDENTITY, identity) != identity:
            self.close(f"descriptor {self._descriptor} is not the worker's pipe")
            return
        # A wider pipe lets the trainer go on while the reader is busy. Not every kernel grants it.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with contextlib.suppress(OSError):
            self._lock_file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write_pending(self) -> None:
        while self.open and (self._pending or self._rest):
            self._rest += self._make_lines()
            # More than PIPE_BUF is not written as one piece: other processes of the run wait meanwhile.
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
        lines: list[str] = []
        for make, args in taken:
            try:
                lines.append(make(*args))
            except Exception as error:  # noqa: BLE001 - one bad value costs its own line
                self.dropped += 1
                self.trouble = f"{type(error).__name__}: {error}"
        lines.append("")
        return "\n".join(lines).encode("ascii")

    def _write_rest(self) -> None:
        while (done := sum(self._written)) < len(self._rest):
            try:
                # One call with its result: a signal handler that raises comes before both or after both,
                # so that whoever catches it and writes on writes nothing twice.
                self._written.extend(map(os.write, (self._descriptor,), (memoryview(self._rest)[done:],)))
            except BlockingIOError:
                select.select([], [self._descriptor], [])
        self._rest, self._written = b"", []
