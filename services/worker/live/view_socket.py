"""The Unix socket between the trainer's processes and the worker, accessible to this user only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SOCKET_NAME = "view.sock"
# The system's limit for the path of a socket, with the terminating zero.
MAX_PATH_BYTES = 108


class ViewSocket:
    """A socket in the run's directory, or in a temporary one where that path is too long."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOCKET_NAME
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        if len(os.fsencode(self.path)) >= MAX_PATH_BYTES:
            self._own = tempfile.TemporaryDirectory(prefix="runspine-")
            self.path = Path(self._own.name) / SOCKET_NAME

    async def open(self, serve: Serve, line_bytes: int) -> None:
        """Listen and call `serve` for each connection."""
        # A killed worker may have left one behind.
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(serve, self.path, limit=line_bytes)
        self.path.chmod(0o600)

    async def close(self) -> None:
        """Close and remove the socket."""
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._own is not None:
            self._own.cleanup()
