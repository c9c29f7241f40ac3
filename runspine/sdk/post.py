"""A socket to the worker: lines come in, and the newest message of each slot goes out.

Nothing here blocks or disturbs the trainer: two threads do the waiting, and what the worker does not
take in time is replaced by what is newer.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

Hear = Callable[[dict[str, Any]], None]
SEND_SECONDS = 2
AGAIN_SECONDS = 5.0
CHUNK = 1 << 16
# A line of the worker's that is longer is none of the worker's.
MOST_LINE = 1 << 20


class Post:
    def __init__(self, path: str, hear: Hear) -> None:
        self._path = path
        self._hear = hear
        self._socket: socket.socket | None = None
        self._waiting: dict[int, tuple[bytes, memoryview]] = {}
        # Rung when a slot has something to send. SimpleQueue: a signal handler may ring, too.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._receive, name="runspine-view", daemon=True).start()
        threading.Thread(target=self._send, name="runspine-frames", daemon=True).start()

    def put(self, slot: int, header: dict[str, Any], data: memoryview) -> None:
        """Send this, unless something newer comes before it is sent."""
        if self._socket is None:
            return
        line = json.dumps(header, separators=(",", ":")).encode() + b"\n"
        # Taken out by popitem alone, so that no lock is needed: a dict's own steps are whole.
        is_new = slot not in self._waiting
        self._waiting[slot] = line, data
        if is_new:
            self._bell.put(None)

    def leave(self) -> None:
        """In a forked child: the socket is the parent's, and the threads are not here."""
        if self._socket is not None:
            self._socket.close()

    def _receive(self) -> None:
        while True:
            try:
                self._listen()
            except FileNotFoundError:
                # The worker takes it away when the run ends.
                return
            except (OSError, ValueError):
                pass
            finally:
                self._socket = None
                self._waiting.clear()
                self._hear({"look": None})
            time.sleep(AGAIN_SECONDS)

    def _listen(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(self._path)
            # The system's own time-out: with Python's, each piece of a frame would be a call of its own,
            # and after each call this process's only interpreter would have to be waited for.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
            self._socket = line
            rest = b""
            while chunk := line.recv(CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for text in lines:
                    said = json.loads(text)
                    if isinstance(said, dict):
                        self._hear(said)
                if len(rest) > MOST_LINE:
                    raise ValueError("no end of line")

    def _send(self) -> None:
        while True:
            self._bell.get()
            pieces: list[bytes | memoryview] = []
            # Popped while the trainer goes on adding: it is empty when popitem says so.
            with contextlib.suppress(KeyError):
                while True:
                    pieces += self._waiting.popitem()[1]
            line = self._socket
            if line is None or not pieces:
                continue
            try:
                whole = line.sendmsg(pieces) == sum(map(len, pieces))
            except OSError:
                whole = False
            if not whole:
                # In the middle of a frame, and it takes no more: nothing can follow on this connection.
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
