"""HighwayHash-64 (github.com/google/highwayhash) of thousands of messages at once, in numpy. Pure.

The state has one column for each message. Messages are sorted by length, longest first, so that those that
still have a packet of 32 bytes are always the first columns: each step of the loop is one update of them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

U64 = np.uint64
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

PACKET = 32
_MUL0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_LOW = U64(0xFFFFFFFF)
_HALF = U64(32)
# Lanes are mixed in pairs. Each byte of a lane, or of the other one of its pair, has a mask and moves left or
# right; of two numbers of bits, one is for the even and one for the odd lanes.
_PAIRS = np.array([1, 0, 3, 2], dtype=np.intp)


def _byte(number: int) -> np.uint64:
    return U64(0xFF << 8 * number)


def _each(even: int, odd: int) -> Words:
    return np.array([even, odd, even, odd], dtype=U64)[:, None]


_OWN_LEFT = ((_byte(1), _each(32, 24)), (_byte(0), _each(56, 48)))
_OTHER_RIGHT = ((_byte(6), _each(16, 8)), (_byte(7), _each(8, 0)))
# Messages whose state fits the cache of a core.
_ROWS = 4096
_PADDING = [b"\0" * (-size % PACKET) for size in range(PACKET)]


def key_of(name: str) -> Words:
    """The key that nats-server derives from a name."""
    return np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype="<u8").astype(U64)


def hash_of(key: Words, message: bytes) -> int:
    """Of one message."""
    return int(hashes_of(key[None, :], [message])[0])


def hashes_of(keys: Words, messages: Sequence[bytes]) -> Words:
    """Of each message under the key in its row of `keys`; one row is the key of all."""
    lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
    found = np.empty(len(messages), dtype=U64)
    order = np.argsort(-lengths, kind="stable")
    for first in range(0, len(order), _ROWS):
        some = order[first : first + _ROWS]
        own = keys if len(keys) == 1 else keys[some]
        found[some] = _hash_sorted(own, [messages[at] for at in some], lengths[some])
    return found


def _hash_sorted(keys: Words, messages: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> Words:
    whole, rest = lengths // PACKET, lengths % PACKET
    parts: list[bytes] = [b""] * (2 * len(messages))
    parts[0::2] = messages
    parts[1::2] = [_PADDING[size] for size in rest.tolist()]
    packets = np.frombuffer(b"".join(parts), dtype="<u8").reshape(-1, 4)
    sizes = whole + (rest > 0)
    starts = np.cumsum(sizes) - sizes
    state = _State.new(keys, len(messages))
    for index, count in enumerate(_counts(whole)):
        state.update(packets[starts[:count] + index].T, count)
    rows = np.flatnonzero(rest)
    if len(rows):
        state.update_rests(rows, packets[starts[rows] + whole[rows]], rest[rows])
    return state.finish()


def _counts(whole: npt.NDArray[np.int64]) -> list[int]:
    """For each index of a packet: how many messages have it. The messages are sorted."""
    found: list[int] = np.searchsorted(-whole, -np.arange(int(whole[0])), side="left").tolist()
    return found


class _State:
    """Four lanes in each of four words, a column for each message."""

    def __init__(self, v0: Words, v1: Words, mul0: Words, mul1: Words) -> None:
        self.words = (v0, v1, mul0, mul1)
        self._scratch = tuple(np.empty_like(v0) for _ in range(3))

    @classmethod
    def new(cls, keys: Words, count: int) -> _State:
        mul0, mul1 = (np.repeat(np.array(each, dtype=U64)[:, None], count, axis=1) for each in (_MUL0, _MUL1))
        return cls(mul0 ^ keys.T, mul1 ^ _halves_swapped(keys.T), mul0, mul1)

    def update(self, lanes: Words, count: int) -> None:
        """One packet for each of the first `count` messages."""
        v0, v1, mul0, mul1 = (word[:, :count] for word in self.words)
        v1 += lanes
        v1 += mul0
        self._multiply(mul0, v1, v0)
        v0 += mul1
        self._multiply(mul1, v0, v1)
        self._mix(v0, v1)
        self._mix(v1, v0)

    def _multiply(self, into: Words, low: Words, high: Words) -> None:
        product, shifted = (each[:, : into.shape[1]] for each in self._scratch[:2])
        np.bitwise_and(low, _LOW, out=product)
        np.right_shift(high, _HALF, out=shifted)
        product *= shifted
        into ^= product

    def _mix(self, into: Words, own: Words) -> None:
        """Add the bytes of each pair of lanes in another order."""
        mixed, other, part = (each[:, : into.shape[1]] for each in self._scratch)
        np.take(own, _PAIRS, axis=0, out=other, mode="clip")
        np.bitwise_and(own, _byte(3), out=mixed)
        mixed |= np.bitwise_and(other, _byte(4), out=part)
        mixed >>= U64(24)
        mixed |= np.bitwise_and(own, _byte(2), out=part)
        np.bitwise_and(own, _byte(5), out=part)
        part >>= U64(16)
        mixed |= part
        for mask, left in _OWN_LEFT:
            np.bitwise_and(own, mask, out=part)
            part <<= left
            mixed |= part
        for mask, right in _OTHER_RIGHT:
            np.bitwise_and(other, mask, out=part)
            part >>= right
            mixed |= part
        into += mixed

    def update_rests(self, rows: npt.NDArray[np.intp], last: Words, sizes: npt.NDArray[np.int64]) -> None:
        """The packet of the last bytes of some messages, fewer than 32 each."""
        v0, v1, mul0, mul1 = (word[:, rows] for word in self.words)
        count = sizes.astype(U64)
        v0 += (count << _HALF) + count
        part = _State(v0, _rotated(v1, count), mul0, mul1)
        part.update(_rest_packets(last, sizes).T, len(rows))
        for word, updated in zip(self.words, part.words, strict=True):
            word[:, rows] = updated

    def finish(self) -> Words:
        v0, v1, mul0, mul1 = self.words
        for _ in range(4):
            self.update(_halves_swapped(v0[(2, 3, 0, 1), :]), v0.shape[1])
        found: Words = v0[0] + v1[0] + mul0[0] + mul1[0]
        return found


def _halves_swapped(words: Words) -> Words:
    swapped: Words = (words >> _HALF) | (words << _HALF)
    return swapped


def _rotated(words: Words, count: Words) -> Words:
    """Both halves of each word rotated left by 1 to 31 bits."""
    low, high = words & _LOW, words >> _HALF
    back = _HALF - count
    low = ((low << count) | (low >> back)) & _LOW
    high = ((high << count) | (high >> back)) & _LOW
    rotated: Words = low | (high << _HALF)
    return rotated


def _rest_table() -> npt.NDArray[np.intp]:
    """For each number of bytes that are left: which of them stands where in the packet; 32 is a zero."""
    table = np.full((PACKET, PACKET), PACKET, dtype=np.intp)
    for size in range(1, PACKET):
        words, odd = size & ~3, size & 3
        table[size, :words] = np.arange(words)
        if size & 16:
            table[size, 28:] = np.arange(size - 4, size)
        elif odd:
            table[size, 16:19] = (words, words + (odd >> 1), words + odd - 1)
    return table


_RESTS = _rest_table()


def _rest_packets(last: Words, sizes: npt.NDArray[np.int64]) -> Words:
    given = np.zeros((len(sizes), PACKET + 1), dtype=np.uint8)
    given[:, :PACKET] = np.ascontiguousarray(last).view(np.uint8)
    packets = np.take_along_axis(given, _RESTS[sizes], axis=1)
    return np.ascontiguousarray(packets).view("<u8").astype(U64, copy=False)
