"""Whether a valid record follows a wrong one whose length cannot be trusted. Pure.

A server that was killed or lost power leaves at most an unfinished end: nothing valid is behind it. Every
place behind the wrong record is tried that looks like the beginning of one; its checksum decides.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from runspine.nats_store.highway import Words
from runspine.nats_store.records import FIXED, HAS_HEADER, LARGEST, SMALLEST, Record, are_valid, record_at

# Sequences below 2^48, and times of the years 2014 to 2106, in nanoseconds, by their upper halves.
_SEQUENCE_HIGH = 1 << 16
_TIME_HIGH = (1_400_000_000 * 10**9 >> 32, 4_300_000_000 * 10**9 >> 32)
_FLAGS = 0xC0000000
# At first a few: the next record is nearly always among them.
_TRIES = 64
_SPAN = 1 << 20


def has_valid_record(data: bytes, after: int, key: Words, *, raft: bool) -> bool:
    """Whether a record with a correct checksum begins anywhere behind `after`."""
    some: list[Record] = []
    for at in _candidates(data, after + 1):
        record = record_at(data, at, raft)
        if isinstance(record, Record):
            some.append(record)
        if len(some) == _TRIES:
            if are_valid(data, some, key).any():
                return True
            some = []
    return bool(are_valid(data, some, key).any())


def _candidates(data: bytes, first: int) -> Iterator[int]:
    """Offsets at which lengths, sequence and time could be those of a record."""
    for begin in range(first, len(data) - SMALLEST + 1, _SPAN):
        end = min(begin + _SPAN, len(data) - SMALLEST + 1)
        words = _words(data[begin : end + FIXED])
        count = end - begin
        length = words[:count] & np.uint32(HAS_HEADER - 1)
        sequence = words[8 : 8 + count] & np.uint32(~_FLAGS & 0xFFFFFFFF)
        time = words[16 : 16 + count]
        dated = (time >= _TIME_HIGH[0]) & (time <= _TIME_HIGH[1])
        undated = (time == 0) & (words[12 : 12 + count] == 0)
        plausible = (length >= SMALLEST) & (length <= min(LARGEST, len(data))) & (sequence < _SEQUENCE_HIGH)
        yield from (np.flatnonzero(plausible & (dated | undated)) + begin).tolist()


def _words(data: bytes) -> npt.NDArray[np.uint32]:
    """The u32 that begins at each offset."""
    octets = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
    words: npt.NDArray[np.uint32] = (
        octets[:-3]
        | octets[1:-2] << np.uint32(8)
        | octets[2:-1] << np.uint32(16)
        | octets[3:] << np.uint32(24)
    )
    return words
