"""The progress of an attempt at its last spooled batch, for recovery after a restart.

Not synced: it is for a killed worker, whose last writes the system still has.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

# Checksum of all that follows, number of the last batch spooled.
_HEAD = struct.Struct("<IQ")


class LastProgress:
    """A small file with the number of the last batch and the progress at that time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, number: int, data: bytes) -> None:
        """Write with one system call, so that a killed writer leaves the old or the new content."""
        body = number.to_bytes(8, "little") + data
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            whole = _HEAD.pack(crc32(body), number) + data
            os.pwrite(descriptor, whole, 0)
            os.ftruncate(descriptor, len(whole))
        finally:
            os.close(descriptor)

    def read(self) -> tuple[int, bytes]:
        """The number and the data; 0 and nothing when the file is absent or damaged."""
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
        """Delete the file."""
        self._path.unlink(missing_ok=True)
