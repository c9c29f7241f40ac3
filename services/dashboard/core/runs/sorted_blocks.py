"""A sorted list in blocks: an insertion moves one block, whatever the length of the list."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

BLOCK = 512


class SortedBlocks:
    """Keys in ascending order, all different and comparable with each other."""

    def __init__(self) -> None:
        self._blocks: list[list[Any]] = []
        # The last key of each block.
        self._last: list[Any] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, key: Any) -> None:
        self._length += 1
        if not self._blocks:
            self._blocks.append([key])
            self._last.append(key)
            return
        at = min(bisect_left(self._last, key), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, key)
        if len(block) > 2 * BLOCK:
            self._blocks.insert(at + 1, block[BLOCK:])
            del block[BLOCK:]
            self._last.insert(at, block[-1])
        self._last[at] = block[-1]

    def remove(self, key: Any) -> None:
        """Remove a key that is there."""
        at = bisect_left(self._last, key)
        block = self._blocks[at]
        del block[bisect_left(block, key)]
        self._length -= 1
        if block:
            self._last[at] = block[-1]
        else:
            del self._blocks[at], self._last[at]

    def slice(self, first: int, count: int) -> list[Any]:
        """Keys from a position on; linear in the number of blocks and of keys returned."""
        found: list[Any] = []
        for block in self._blocks:
            if len(found) >= count:
                break
            if first >= len(block):
                first -= len(block)
                continue
            found += block[first : first + count - len(found)]
            first = 0
        return found

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            yield from block
