"""Records and blocks as nats-server writes them."""

from __future__ import annotations

import struct

from runspine.nats_store.highway import Words, hash_of, key_of
from runspine.nats_store.records import HAS_HEADER, SMALLEST

HEADER = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"
TIME = 1_790_000_000 * 10**9


def block_key(name: str = "RUNS", index: int = 1) -> Words:
    return key_of(f"{name}-{index}")


def record(
    key: Words, sequence: int, message: bytes = b"", subject: bytes = b"runs.a", header: bytes = HEADER
) -> bytes:
    """One record with its checksum."""
    body = subject + (struct.pack("<I", len(header)) + header if header else b"") + message
    head = struct.pack("<QQ", sequence, TIME + (sequence & 0xFFFF))
    length = (SMALLEST + len(body)) | (HAS_HEADER if header else 0)
    checksum = hash_of(key, head + subject + header + message).to_bytes(8, "little")
    return struct.pack("<I", length) + head + struct.pack("<H", len(subject)) + body + checksum


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


def starts(data: bytes) -> list[int]:
    """Where each record of a whole block begins."""
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += struct.unpack_from("<I", data, at)[0] & (HAS_HEADER - 1)
    return found
