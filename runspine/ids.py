"""Identifiers: ULIDs, and names of runs as CleanRL forms them."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(milliseconds: int, entropy: bytes) -> str:
    """48 bits of time and 80 of entropy in Crockford's base 32; sorts by time."""
    number = milliseconds << 80 | int.from_bytes(entropy[:10], "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def new_ulid() -> str:
    return ulid(time.time_ns() // 1_000_000, os.urandom(10))


def is_ulid(text: str) -> bool:
    return len(text) == 26 and all(c in _ALPHABET for c in text) and text[0] <= "7"


def run_name(env: str, algo: str, seed: int, at: int) -> str:
    """`<env>__<algo>__<seed>__<unix time>`, as CleanRL names its runs; `at` in microseconds."""
    return "__".join([*(part for part in (env, algo) if part), str(seed), str(at // 1_000_000)])
