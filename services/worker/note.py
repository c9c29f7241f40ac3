"""How far an attempt was when it last spooled something: what a restarted worker can tell of it.

Not synced: it is for a killed worker, whose last writes the system still has.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

# Checksum of all that follows, number of the last batch spooled.
_HEAD = struct.Struct("<IQ")


class Note:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, number: int, data: bytes) -> None:
        """In one call, so that a killed writer leaves the old one or the new one."""
        body = number.to_bytes(8, "little") + data
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            whole = _HEAD.pack(crc32(body), number) + data
            os.pwrite(descriptor, whole, 0)
            os.ftruncate(descriptor, len(whole))
        finally:
            os.close(descriptor)

    def read(self) -> tuple[int, bytes]:
        """The number and what was noted; 0 and nothing when there is none, or it is damaged."""
        try:
            whole = self._path.read_bytes()
        except FileNotFoundError:
            return 0, b""
        if len(whole) < _HEAD.size:
            return 0, b""
        check, number = _HEAD.unpack_from(whole)
        data = whole[_HEAD.size :]
        return (number, data) if crc32(whole[4:]) == check else (0, b"")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
