"""Views of the runs that visitors look at, shared; built and updated in slices that block nobody."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from runspine.services.dashboard.core.run_table import RunTable, RunTableEntry
from runspine.services.dashboard.core.runs.filters import parse_filter
from runspine.services.dashboard.core.runs.view import DEFAULT_SORT, SortedRuns

T = TypeVar("T")
MAX_VIEWS = 12
WARM_SECONDS = 2.0
# Entries that are taken in before the clock is read.
PIECE = 64
# How long a build runs before others have their turn.
SLICE_SECONDS = 0.004


class SharedViews:
    """Views by filter line and sort, the least recently used dropped first."""

    def __init__(self, table: RunTable) -> None:
        self._table = table
        self._views: OrderedDict[tuple[str, str], SortedRuns] = OrderedDict()
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def keep_warm(self) -> None:
        """Keep the view that everybody sees first up to date: a list of many runs opens at once."""
        while True:
            await self.get("", DEFAULT_SORT)
            await asyncio.sleep(WARM_SECONDS)

    async def get(self, query: str, sort: str) -> SortedRuns:
        """The view with all changes so far. Raises InvalidError."""
        key = (" ".join(query.split()), sort)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                view = self._views.get(key) or SortedRuns(
                    parse_filter(query, self._table.params, self._table.labels), sort
                )
                await self._catch_up(view)
                self._views[key] = view
                self._views.move_to_end(key)
                while len(self._views) > MAX_VIEWS:
                    self._views.popitem(last=False)
                return view
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    async def _catch_up(self, view: SortedRuns) -> None:
        """Apply changes until none is left: while others have their turn, there are new ones."""
        while view.version != self._table.version:
            version, changed = self._table.version, self._table.changed_since(view.version)
            await sliced(changed, view.apply)
            view.version = version

    async def entries(self, view: SortedRuns) -> list[RunTableEntry]:
        """The runs of a view, in no order."""
        found = (self._table.get(run_id) for run_id in view.ids(0, len(view)))
        return [entry for entry in found if entry is not None]


async def sliced(items: Sequence[T], take: Callable[[Iterable[T]], object]) -> None:
    """Hand items over in pieces, and let others have their turn every few milliseconds."""
    rest: Iterator[T] = iter(items)
    began = time.perf_counter()
    while piece := list(islice(rest, PIECE)):
        take(piece)
        if time.perf_counter() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()
