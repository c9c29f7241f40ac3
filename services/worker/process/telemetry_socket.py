"""The Unix socket on which a trainer's processes send telemetry when they did not inherit its descriptor.

`subprocess`, torchrun, mpirun, spawn and forkserver close descriptors; a path in the environment stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog

log = structlog.get_logger()

SOCKET_NAME = "telemetry.sock"
# The system's limit for the path of a socket, with the terminating zero.
MAX_PATH_BYTES = 108
BACKLOG = 1024
RETRY_SECONDS = 0.5

Serve = Callable[[socket.socket], None]


class TelemetrySocket:
    """A socket for this user in the run's directory, or in a temporary one where that path is too long."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOCKET_NAME
        self._own: tempfile.TemporaryDirectory[str] | None = None
        if len(os.fsencode(self.path)) >= MAX_PATH_BYTES:
            self._own = tempfile.TemporaryDirectory(prefix="runspine-")
            self.path = Path(self._own.name) / SOCKET_NAME
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._ended = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None

    def __enter__(self) -> TelemetrySocket:
        """Listen. Connections wait for `accept`."""
        # A killed worker may have left one behind.
        self.path.unlink(missing_ok=True)
        self._listener.setblocking(False)
        self._listener.bind(os.fspath(self.path))
        self.path.chmod(0o600)
        self._listener.listen(BACKLOG)
        return self

    async def accept(self, serve: Serve) -> None:
        """Call `serve` for each connection, until `end` was called and none is waiting."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept_waiting, serve)
        try:
            await self._ended.wait()
        finally:
            loop.remove_reader(self._listener)
            if self._retry:
                self._retry.cancel()
        # Of processes that have connected and ended already.
        self._accept_waiting(serve)

    def end(self) -> None:
        """The trainer's processes have ended: no more connections come."""
        self._ended.set()

    def __exit__(self, *_: object) -> None:
        """Close and remove the socket."""
        self._listener.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._own is not None:
            self._own.cleanup()

    def _accept_waiting(self, serve: Serve) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Out of descriptors: the process waits, and so does this.
                log.warning("telemetry_socket.not_accepted", error=str(error))
                self._pause(serve)
                return
            connection.setblocking(False)
            serve(connection)

    def _pause(self, serve: Serve) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        if not self._ended.is_set():
            self._retry = loop.call_later(
                RETRY_SECONDS, loop.add_reader, self._listener, self._accept_waiting, serve
            )
