"""A view of the runs: those that a filter accepts, in an order. Updated by the runs that changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runspine.errors import InvalidError
from runspine.services.dashboard.core.run_table import RunTableEntry
from runspine.services.dashboard.core.runs.columns import Cell, RunColumn, column
from runspine.services.dashboard.core.runs.filters import Filter
from runspine.services.dashboard.core.runs.sorted_blocks import SortedBlocks

DEFAULT_SORT = "-submitted"
# Of a key: numbers before texts, so that mixed parameters have an order too.
_NUMBERS, _TEXTS = 0, 1


def sort_column(sort: str) -> tuple[RunColumn, bool]:
    """The column of a sort, and whether it is descending (`-name`). Raises InvalidError."""
    found = column(sort.removeprefix("-"))
    if found is None:
        raise InvalidError(f"sort: {sort!r} is no column")
    return found, sort.startswith("-")


class SortedRuns:
    """Ids of the accepted runs in order. Runs without a value of the column come last in both directions."""

    def __init__(self, accepted: Filter, sort: str = DEFAULT_SORT) -> None:
        self._filter = accepted
        self._column, self._descending = sort_column(sort)
        self._valued, self._missing = SortedBlocks(), SortedBlocks()
        self._keys: dict[str, Any] = {}
        # The version of the table up to which changes are in.
        self.version = 0

    def __len__(self) -> int:
        return len(self._keys)

    def apply(self, entries: Iterable[RunTableEntry]) -> None:
        """Take in the present state of some runs."""
        for entry in entries:
            run_id = entry.run.id
            key = self._key(entry) if self._filter.accepts(entry) else None
            known = self._keys.get(run_id)
            if key == known:
                continue
            if known is not None:
                (self._valued if len(known) == 3 else self._missing).remove(known)
                del self._keys[run_id]
            if key is not None:
                (self._valued if len(key) == 3 else self._missing).add(key)
                self._keys[run_id] = key

    def _key(self, entry: RunTableEntry) -> Any:
        """The place of a run: (kind, value, id), or (id,) without a value."""
        value: Cell = self._column.read(entry)
        if value is None or value == "":
            return (entry.run.id,)
        if isinstance(value, str):
            return (_TEXTS, value.casefold(), entry.run.id)
        return (_NUMBERS, value, entry.run.id)

    def ids(self, first: int, count: int) -> list[str]:
        """Ids from a position on."""
        valued = len(self._valued)
        found = _part(self._valued, first, count, self._descending)
        if len(found) < count:
            # Newest first among those without a value: ids begin with the time.
            found += _part(self._missing, max(0, first - valued), count - len(found), True)
        return [key[-1] for key in found]


def _part(keys: SortedBlocks, first: int, count: int, descending: bool) -> list[Any]:
    if not descending:
        return keys.slice(first, count)
    last = len(keys) - first
    start = max(0, last - count)
    return keys.slice(start, max(0, last - start))[::-1]
