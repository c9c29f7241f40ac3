"""Where the trainer's processes find the worker: a Unix socket that nobody else may open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NAME = "view.sock"
# The system's limit for the path of a socket, with the zero at its end.
MOST_PATH = 108


class Place:
    """In the run's directory; in a folder of its own where that path is too long for a socket."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        if len(os.fsencode(self.path)) >= MOST_PATH:
            self._own = tempfile.TemporaryDirectory(prefix="runspine-")
            self.path = Path(self._own.name) / NAME

    async def open(self, serve: Serve, line_bytes: int) -> None:
        # A worker that was killed has left one behind.
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(serve, self.path, limit=line_bytes)
        self.path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._own is not None:
            self._own.cleanup()
