"""Comparisons of runs, made once for the chart and the table of all pages that show the same."""

from __future__ import annotations

from collections.abc import Sequence

from runspine.compare.comparison import Comparison
from services.dashboard.core.runbook import RunBook
from services.dashboard.edges.backend import Access
from services.dashboard.edges.figures import comparison
from services.dashboard.edges.shared import Shared


class Comparisons:
    def __init__(self, book: RunBook, shared: Shared) -> None:
        self._book = book
        self._shared = shared

    async def get(
        self,
        access: Access,
        names: Sequence[str],
        metric: str,
        axis: str,
        statistic: str,
        by: tuple[str, ...],
        each: bool,
    ) -> Comparison:
        key = (access.audience, "comparison", tuple(names), metric, axis, statistic, by, each)
        version = max((entry.version for name in names if (entry := self._book.get(name))), default=0)
        found: Comparison = await self._shared.get(
            key, version, lambda: comparison(access, names, metric, axis, statistic, by, each)
        )
        return found
