"""The Merkle tree of a stream, hashed as RFC 6962 does. Pure.

Leaf i is the message at position i + 1: its position, subject and bytes. A position without a message has a
leaf of its own, so that leaves and positions never shift.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

DIGEST_BYTES = 32
_LEAF, _NODE = b"\x00", b"\x01"
_MESSAGE, _MISSING = b"m", b"-"
EMPTY = hashlib.sha256().digest()


def message_leaf(sequence: int, subject: str, data: bytes) -> bytes:
    """The leaf of a message."""
    name = subject.encode()
    place = sequence.to_bytes(8, "big") + len(name).to_bytes(4, "big")
    return hashlib.sha256(_LEAF + _MESSAGE + place + name + data).digest()


def missing_leaf(sequence: int) -> bytes:
    """The leaf of a position without a message."""
    return hashlib.sha256(_LEAF + _MISSING + sequence.to_bytes(8, "big")).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


class MerkleTree:
    """A tree that grows leaf by leaf and keeps the roots of its complete subtrees only: O(log n)."""

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        if len(peaks) != size.bit_count() or any(len(each) != DIGEST_BYTES for each in peaks):
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} peaks of {DIGEST_BYTES} bytes")
        self.size = size
        self.peaks = list(peaks)

    def add(self, leaf: bytes) -> None:
        """Append a leaf."""
        size, node = self.size, leaf
        while size & 1:
            node = _node(self.peaks.pop(), node)
            size >>= 1
        self.peaks.append(node)
        self.size += 1

    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY
        node = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            node = _node(peak, node)
        return node


def inclusion_path(leaves: Iterable[bytes], index: int) -> list[bytes]:
    """The digests that lead from leaf `index` to the root over all these leaves, each read once.

    Raises ValueError when there is no such leaf.
    """
    # Complete subtrees from the left: height, root, and whether the leaf is in it.
    peaks: list[tuple[int, bytes, bool]] = []
    path: list[bytes] = []
    count = 0
    for leaf in leaves:
        height, node, inside = 0, leaf, count == index
        while peaks and peaks[-1][0] == height:
            _, left, left_inside = peaks.pop()
            if left_inside or inside:
                path.append(node if left_inside else left)
            height, node, inside = height + 1, _node(left, node), inside or left_inside
        peaks.append((height, node, inside))
        count += 1
    if not 0 <= index < count:
        raise ValueError(f"there is no leaf {index} in a tree of {count}")
    _, node, inside = peaks.pop()
    while peaks:
        _, left, left_inside = peaks.pop()
        if left_inside or inside:
            path.append(node if left_inside else left)
        node, inside = _node(left, node), inside or left_inside
    return path


def root_of_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that a path leads to. Raises ValueError when the path does not fit."""
    if not 0 <= index < size:
        raise ValueError(f"there is no leaf {index} in a tree of {size}")
    node, last = leaf, size - 1
    for sibling in path:
        if last == 0:
            raise ValueError("the path is too long")
        if index & 1 or index == last:
            node = _node(sibling, node)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = _node(node, sibling)
        index, last = index >> 1, last >> 1
    if last:
        raise ValueError("the path is too short")
    return node
