"""Cache of curves as JSON: series of a run that pages show are fetched together, once for all pages."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from runspine.clock import now_micros
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.backend import Access
from runspine.services.dashboard.edges.metric_queries import parse_axis
from runspine.services.dashboard.edges.shared_query import UNCHANGED_SECONDS, hold_seconds
from runspine.wire.v1.telemetry_pb2 import QueryMetricsRequest, Series

MAX_GROUPS = 128
# A series that no page has requested for this long is no longer fetched along with others.
REQUESTED_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class CurveQuery:
    """What a chart requests of its series; charts with equal queries share the answer."""

    run_id: str
    axis: str = "step"
    points: int = 1000
    first: float | None = None
    last: float | None = None


@dataclass(slots=True)
class CachedCurve:
    body: bytes
    # Identifies this state of the curve.
    number: int
    version: int
    at: float
    requested: float

    def as_json(self) -> bytes:
        return b'{"number":%d,%b' % (self.number, self.body[1:])


@dataclass(slots=True)
class CachedCurves:
    """The curves of one query, by name."""

    curves: dict[str, CachedCurve] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    due: float = 0.0

    def has(self, name: str, version: int, now: float) -> bool:
        curve = self.curves.get(name)
        if curve is None:
            return False
        return now < self.due or (curve.version == version and now - curve.at < UNCHANGED_SECONDS)


class CurveCache:
    """Curves by audience and query, the least recently used dropped first."""

    def __init__(self, table: RunTable) -> None:
        self.table = table
        self._groups: OrderedDict[tuple[str, CurveQuery], CachedCurves] = OrderedDict()
        # A browser may hold curves of an earlier process: numbers continue from the clock.
        self._numbers = itertools.count(now_micros())

    def is_due(self, run_id: str) -> bool:
        """Whether a request now would fetch new data."""
        now = time.monotonic()
        return all(group.due <= now for (_, query), group in self._groups.items() if query.run_id == run_id)

    async def curves(self, access: Access, query: CurveQuery, names: Mapping[str, int]) -> bytes:
        """The named curves as JSON, without those whose number the browser already has."""
        group = self._group((access.audience, query))
        async with group.lock:
            entry = self.table.get(query.run_id)
            version, now = entry.version if entry else 0, time.monotonic()
            for name in names:
                if curve := group.curves.get(name):
                    curve.requested = now
            if missing := [name for name in names if not group.has(name, version, now)]:
                await self._fetch(access, query, group, missing, version)
            found = [(group.curves[name], number) for name, number in names.items() if name in group.curves]
        return b"[" + b",".join(curve.as_json() for curve, number in found if curve.number != number) + b"]"

    def _group(self, key: tuple[str, CurveQuery]) -> CachedCurves:
        group = self._groups.setdefault(key, CachedCurves())
        self._groups.move_to_end(key)
        while len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)
        return group

    async def _fetch(
        self, access: Access, query: CurveQuery, group: CachedCurves, names: Sequence[str], version: int
    ) -> None:
        began = time.monotonic()
        others = [
            name
            for name, curve in group.curves.items()
            if name not in names
            and began - curve.requested < REQUESTED_SECONDS
            and not group.has(name, version, began)
        ]
        wanted = [*names, *others]
        answer = await access.call("telemetry", "QueryMetrics", _request(query, wanted))
        known = {series.name: series for series in answer.series}
        for name in wanted:
            series = known.get(name, Series(name=name, exact=True))
            self._put(group, series, version, began)
        now = time.monotonic()
        group.due = now + hold_seconds(now - began)

    def _put(self, group: CachedCurves, series: Series, version: int, at: float) -> None:
        """Store a curve; an unchanged one keeps its number, so that it is not sent again."""
        body = orjson.dumps(_plain(series))
        held = group.curves.get(series.name)
        if held is not None and held.body == body:
            held.version, held.at = version, at
            return
        requested = held.requested if held is not None else at
        group.curves[series.name] = CachedCurve(body, next(self._numbers), version, at, requested)


def _request(query: CurveQuery, names: Sequence[str]) -> QueryMetricsRequest:
    request = QueryMetricsRequest(
        run_id=query.run_id, names=names, max_points=query.points, axis=parse_axis(query.axis)
    )
    if query.first is not None:
        setattr(request, "from", query.first)
    if query.last is not None:
        request.to = query.last
    return request


def _plain(series: Series) -> dict[str, Any]:
    """Plain values; orjson writes NaN and infinity as null."""
    return {
        "name": series.name,
        "exact": series.exact,
        "points": series.points,
        "x": list(series.x),
        "y": list(series.y),
        "low": list(series.low),
        "high": list(series.high),
    }
