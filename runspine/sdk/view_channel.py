"""Socket to the worker: receives commands, and sends the newest frame of each slot.

Nothing here blocks the trainer: two threads wait, and a frame that the worker does not take in time is
replaced by a newer one.
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

OnMessage = Callable[[dict[str, Any]], None]
SEND_SECONDS = 2
RETRY_SECONDS = 5.0
CHUNK = 1 << 16
# A longer line does not come from the worker.
MAX_LINE_BYTES = 1 << 20


class ViewChannel:
    """Connection to the worker's view socket, with a receiving and a sending thread."""

    def __init__(self, path: str, on_message: OnMessage) -> None:
        self._path = path
        self._on_message = on_message
        self._socket: socket.socket | None = None
        self._waiting: dict[int, tuple[bytes, memoryview]] = {}
        # One item when a slot has something to send. SimpleQueue: a signal handler may put, too.
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._receive, name="runspine-view", daemon=True).start()
        threading.Thread(target=self._send, name="runspine-frames", daemon=True).start()

    def put(self, slot: int, header: dict[str, Any], data: memoryview) -> None:
        """Send this, unless something newer replaces it before."""
        if self._socket is None:
            return
        line = json.dumps(header, separators=(",", ":")).encode() + b"\n"
        # Removed by popitem only, so that no lock is needed: operations of a dict are atomic.
        is_new = slot not in self._waiting
        self._waiting[slot] = line, data
        if is_new:
            self._wakeups.put(None)

    def leave(self) -> None:
        """Close the socket in a forked child, which has none of the threads."""
        if self._socket is not None:
            self._socket.close()

    def _receive(self) -> None:
        while True:
            try:
                self._listen()
            except FileNotFoundError:
                # The worker removes it when the run ends.
                return
            except (OSError, ValueError):
                pass
            finally:
                self._socket = None
                self._waiting.clear()
                self._on_message({"look": None})
            time.sleep(RETRY_SECONDS)

    def _listen(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(self._path)
            # The kernel's timeout: with Python's, each piece of a frame would be a separate call, and each
            # call would have to wait for the interpreter lock again.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
            self._socket = line
            rest = b""
            while chunk := line.recv(CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for text in lines:
                    message = json.loads(text)
                    if isinstance(message, dict):
                        self._on_message(message)
                if len(rest) > MAX_LINE_BYTES:
                    raise ValueError("no end of line")

    def _send(self) -> None:
        while True:
            self._wakeups.get()
            pieces: list[bytes | memoryview] = []
            # The trainer may add meanwhile: it is empty when popitem raises.
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
                # A frame was sent in part: nothing can follow on this connection.
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
