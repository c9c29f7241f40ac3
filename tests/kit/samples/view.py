"""The worker's end of a trainer's view: a socket, what was sent to it, and what it sends."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.waiting import until


class Seen(NamedTuple):
    header: dict[str, Any]
    data: bytes


class Watcher:
    """Listens at `path` and keeps what each process of the trainer sends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[Seen] = []
        self.connections: list[socket.socket] = []
        self._greeting = b""
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def greet(self, **emitted: Any) -> None:
        """Send this to every process as soon as it connects."""
        self._greeting = json.dumps(emitted).encode() + b"\n"

    def emit(self, **emitted: Any) -> None:
        until(lambda: self.connections)
        for connection in self.connections:
            connection.sendall(json.dumps(emitted).encode() + b"\n")

    @property
    def drawn(self) -> set[int]:
        """Slots of which there was a picture."""
        return {seen.header["slot"] for seen in self.seen if any(seen.data)}

    def look(self, fps: float = 30, width: int = 320, slots: list[int] | None = None) -> None:
        self.emit(look={"fps": fps, "width": width, "slots": slots})

    def close(self) -> None:
        self.path.unlink()
        for each in (self._server, *self.connections):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.sendall(self._greeting)
            self.connections.append(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        # A trainer that is killed resets its connection.
        with contextlib.suppress(ConnectionResetError), connection.makefile("rb") as file:
            while line := file.readline():
                header = json.loads(line)
                size = header["width"] * header["height"] * (4 if header.get("bgrx") else 3)
                self.seen.append(Seen(header, file.read(size)))
