"""Numbers of the batches seen of each attempt, so that each batch counts once. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from runspine.wire.v1.manifest_pb2 import Covered


class NumberRanges:
    """A set of numbers as contiguous ranges, both ends included."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.last: list[int] = []

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.first, number) - 1
        return at >= 0 and number <= self.last[at]

    def add(self, number: int) -> bool:
        """Add a number; True if it is new."""
        at = bisect_right(self.first, number) - 1
        if at >= 0 and number <= self.last[at]:
            return False
        follows = at >= 0 and self.last[at] + 1 == number
        precedes = at + 1 < len(self.first) and self.first[at + 1] == number + 1
        if follows and precedes:
            self.last[at] = self.last.pop(at + 1)
            self.first.pop(at + 1)
        elif follows:
            self.last[at] = number
        elif precedes:
            self.first[at + 1] = number
        else:
            self.first.insert(at + 1, number)
            self.last.insert(at + 1, number)
        return True

    def add_range(self, first: int, last: int) -> None:
        """Add a range, merged with those it overlaps or touches."""
        start = bisect_right(self.last, first - 2)
        end = bisect_right(self.first, last + 1)
        if start < end:
            first, last = min(first, self.first[start]), max(last, self.last[end - 1])
        self.first[start:end], self.last[start:end] = [first], [last]


class SeenBatches:
    """Batch numbers by run and attempt."""

    def __init__(self, covered: Iterable[Covered] = ()) -> None:
        self._numbers: dict[tuple[str, int], NumberRanges] = {}
        self.cover(covered)

    def add(self, run_id: str, attempt: int, number: int) -> bool:
        """Add a batch; True if it is new."""
        return self._ranges(run_id, attempt).add(number)

    def cover(self, covered: Iterable[Covered]) -> None:
        for each in covered:
            numbers = self._ranges(each.run_id, each.attempt)
            for first, last in zip(each.first, each.last, strict=True):
                numbers.add_range(first, last)

    def covered(self, run_id: str = "") -> list[Covered]:
        """The numbers of every attempt, or of those of one run."""
        return [
            Covered(run_id=run, attempt=attempt, first=numbers.first, last=numbers.last)
            for run, attempt in sorted(key for key in self._numbers if run_id in ("", key[0]))
            if (numbers := self._numbers[run, attempt]).first
        ]

    def copy(self, run_id: str = "") -> SeenBatches:
        return SeenBatches(self.covered(run_id))

    def _ranges(self, run_id: str, attempt: int) -> NumberRanges:
        return self._numbers.setdefault((run_id, attempt), NumberRanges())
