"""Frames: binary columns on the worker's descriptor, between lines of JSON (docs/protocol.md). Pure.

A frame is MAGIC, the length of its payload, the CRC-32 of the payload, and the payload: the length of a
header, the header as JSON, and the bytes of its columns in order. MAGIC begins with a byte that no JSON and
no UTF-8 has, and a frame begins where a line could begin.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

MAGIC = b"\xffRSFRAME"
# Length and checksum of the payload.
HEAD = struct.Struct("<II")
# Length of the header in the payload.
HEADER_SIZE = struct.Struct("<I")
# A longer payload is not a frame.
MAX_PAYLOAD_BYTES = 16 << 20
# A row of a whole slot must fit into a batch, and a step of all envs into a frame.
MAX_ROW_BYTES = 200 << 10
MAX_STEP_BYTES = MAX_PAYLOAD_BYTES // 2
# What a worker states in RUNSPINE_FRAMES when it reads them.
FRAMES = 1

_encode = json.JSONEncoder(separators=(",", ":")).encode


def frame(header: Mapping[str, Any], columns: Sequence[Any]) -> bytes:
    """One frame; columns are bytes or C-contiguous arrays."""
    return framed(_encode(header).encode("ascii"), columns)


def framed(text: bytes, columns: Sequence[Any]) -> bytes:
    """One frame whose header is JSON already."""
    payload = b"".join((HEADER_SIZE.pack(len(text)), text, *columns))
    return b"".join((MAGIC, HEAD.pack(len(payload), crc32(payload)), payload))
