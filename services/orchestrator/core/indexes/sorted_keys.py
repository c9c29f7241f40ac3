"""A sorted collection with cheap inserts anywhere. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

# A chunk that grows beyond this is cut in half: an insert moves at most so many entries.
MAX_CHUNK = 1024

Key = TypeVar("Key", bound=Any)


class SortedKeys(Generic[Key]):
    """Distinct keys in ascending order, in chunks."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        ordered = sorted(keys)
        half = MAX_CHUNK // 2
        self._chunks = [ordered[start : start + half] for start in range(0, len(ordered), half)]
        self._lasts = [chunk[-1] for chunk in self._chunks]
        self._count = len(ordered)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Key]:
        for chunk in self._chunks:
            yield from chunk

    def add(self, key: Key) -> None:
        """Add a key that is not there yet."""
        self._count += 1
        if not self._chunks:
            self._chunks, self._lasts = [[key]], [key]
            return
        index = min(bisect_left(self._lasts, key), len(self._chunks) - 1)
        chunk = self._chunks[index]
        insort(chunk, key)
        if len(chunk) > MAX_CHUNK:
            half = len(chunk) // 2
            self._chunks[index : index + 1] = [chunk[:half], chunk[half:]]
            self._lasts[index : index + 1] = [chunk[half - 1], chunk[-1]]
        else:
            self._lasts[index] = chunk[-1]

    def remove(self, key: Key) -> None:
        """Remove a key that is there. Raises KeyError."""
        index = bisect_left(self._lasts, key)
        chunk = self._chunks[index] if index < len(self._chunks) else []
        place = bisect_left(chunk, key)
        if place == len(chunk) or chunk[place] != key:
            raise KeyError(key)
        del chunk[place]
        self._count -= 1
        if chunk:
            self._lasts[index] = chunk[-1]
        else:
            del self._chunks[index], self._lasts[index]

    def before(self, key: Key) -> Iterator[Key]:
        """Keys below this one, the largest first."""
        index = bisect_left(self._lasts, key)
        if index < len(self._chunks):
            chunk = self._chunks[index]
            yield from reversed(chunk[: bisect_left(chunk, key)])
        for chunk in reversed(self._chunks[:index]):
            yield from reversed(chunk)

    def after(self, key: Key) -> Iterator[Key]:
        """Keys above this one, the smallest first."""
        index = bisect_right(self._lasts, key)
        if index < len(self._chunks):
            chunk = self._chunks[index]
            yield from chunk[bisect_right(chunk, key) :]
        for chunk in self._chunks[index + 1 :]:
            yield from chunk
