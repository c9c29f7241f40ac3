"""A real nats-server for one test: its own port, its own directory, every write synced."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runspine.embedded.ports import PortBook


def binary(name: str) -> str:
    next_to = Path(sys.executable).with_name(name)
    found = str(next_to) if next_to.exists() else shutil.which(name)
    assert found, f"{name} is not installed"
    return found


# What recent tests chose: a port that was merely free a moment ago may be anybody's by now.
_books: deque[PortBook] = deque()
MOST_BOOKS = 200


def free_port(kind: str = "test") -> int:
    """A port that no other test or stack will take; of kind s3, together with the one weed adds."""
    book = PortBook(Path("never-saved.json"), use_defaults=False)
    port = book.choose(kind)
    book.release_all()
    _books.append(book)
    if len(_books) > MOST_BOOKS:
        _books.popleft().close()
    return port


class NatsServer:
    def __init__(self, directory: Path, *, jetstream: bool = True) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.store = directory / "js"
        self._config = directory / "nats.conf"
        store = f'"{self.store}", sync_interval: always, max_mem: 64M, max_file: 20G'
        self._config.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 1MB\n'
            "feature_flags { js_ack_fc_v2: false }\n"
            + (f"jetstream {{ store_dir: {store} }}\n" if jetstream else "")
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.directory / "nats.log").open("ab") as log:
            self.process = subprocess.Popen(
                [binary("nats-server"), "-c", str(self._config)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError((self.directory / "nats.log").read_text())

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped from the first line on: the signal alone may take effect a moment later."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
