"""Comparisons of runs, computed once for the chart and the table of all pages that show them."""

from __future__ import annotations

from collections.abc import Sequence

from runspine.compare.comparison import Comparison
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.backend import Access
from runspine.services.dashboard.edges.metric_queries import query_comparison
from runspine.services.dashboard.edges.shared_query import SharedQuery


class Comparisons:
    def __init__(self, table: RunTable, shared: SharedQuery) -> None:
        self._table = table
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
        version = max((entry.version for name in names if (entry := self._table.get(name))), default=0)
        found: Comparison = await self._shared.get(
            key, version, lambda: query_comparison(access, names, metric, axis, statistic, by, each)
        )
        return found
