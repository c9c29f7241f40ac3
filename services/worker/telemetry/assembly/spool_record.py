"""The spool record of one batch: header and payload. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass

# Length of the payload, checksum of all that follows, number, kind.
HEADER = struct.Struct("<IIQB")


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """One batch: its number in the attempt, its kind and its bytes."""

    number: int
    kind: int
    payload: bytes

    @property
    def size(self) -> int:
        return HEADER.size + len(self.payload)
