"""Curves as browsers get them: series of a run that pages show are asked for together, once for all pages."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from runspine.wire.v1.telemetry_pb2 import QueryMetricsRequest, Series
from services.dashboard.core.runbook import RunBook
from services.dashboard.edges.backend import Access
from services.dashboard.edges.figures import axis_of
from services.dashboard.edges.shared import SAME_SECONDS, rest_after

MOST_SHELVES = 128
# A series that no page has asked for in this time is not asked for along with others.
WANTED_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Question:
    """What a chart wants to know of its series; what is the same for two charts is answered once."""

    run_id: str
    axis: str = "step"
    points: int = 1000
    first: float | None = None
    last: float | None = None


@dataclass(slots=True)
class Curve:
    said: bytes
    # Tells two states of a curve apart.
    number: int
    version: int
    at: float
    wanted: float

    def as_json(self) -> bytes:
        return b'{"number":%d,%b' % (self.number, self.said[1:])


@dataclass(slots=True)
class Shelf:
    curves: dict[str, Curve] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    due: float = 0.0

    def has(self, name: str, version: int, now: float) -> bool:
        curve = self.curves.get(name)
        if curve is None:
            return False
        return now < self.due or (curve.version == version and now - curve.at < SAME_SECONDS)


class CurveShelf:
    def __init__(self, book: RunBook) -> None:
        self.book = book
        self._shelves: OrderedDict[tuple[str, Question], Shelf] = OrderedDict()
        # A browser may hold curves of an earlier process: numbers go on from the clock.
        self._numbers = itertools.count(time.time_ns() // 1000)

    def is_due(self, run_id: str) -> bool:
        """Whether pages that ask now would be told something new."""
        now = time.monotonic()
        return all(shelf.due <= now for (_, asked), shelf in self._shelves.items() if asked.run_id == run_id)

    async def curves(self, access: Access, question: Question, names: Mapping[str, int]) -> bytes:
        """JSON of the curves that have changed since the numbers that the page has."""
        shelf = self._shelf((access.audience, question))
        async with shelf.lock:
            entry = self.book.get(question.run_id)
            version, now = entry.version if entry else 0, time.monotonic()
            for name in names:
                if curve := shelf.curves.get(name):
                    curve.wanted = now
            if lacking := [name for name in names if not shelf.has(name, version, now)]:
                await self._ask(access, question, shelf, lacking, version)
            found = [(shelf.curves[name], number) for name, number in names.items() if name in shelf.curves]
        return b"[" + b",".join(curve.as_json() for curve, number in found if curve.number != number) + b"]"

    def _shelf(self, key: tuple[str, Question]) -> Shelf:
        shelf = self._shelves.setdefault(key, Shelf())
        self._shelves.move_to_end(key)
        while len(self._shelves) > MOST_SHELVES:
            self._shelves.popitem(last=False)
        return shelf

    async def _ask(
        self, access: Access, question: Question, shelf: Shelf, names: Sequence[str], version: int
    ) -> None:
        began = time.monotonic()
        others = [
            name
            for name, curve in shelf.curves.items()
            if name not in names
            and began - curve.wanted < WANTED_SECONDS
            and not shelf.has(name, version, began)
        ]
        asked = [*names, *others]
        answer = await access.ask("telemetry", "QueryMetrics", _request(question, asked))
        known = {series.name: series for series in answer.series}
        for name in asked:
            series = known.get(name, Series(name=name, exact=True))
            self._put(shelf, series, version, began)
        now = time.monotonic()
        shelf.due = now + rest_after(now - began)

    def _put(self, shelf: Shelf, series: Series, version: int, at: float) -> None:
        """An answer that says the same again keeps its number, and is not sent again."""
        said = orjson.dumps(_plain(series))
        held = shelf.curves.get(series.name)
        if held is not None and held.said == said:
            held.version, held.at = version, at
            return
        wanted = held.wanted if held is not None else at
        shelf.curves[series.name] = Curve(said, next(self._numbers), version, at, wanted)


def _request(question: Question, names: Sequence[str]) -> QueryMetricsRequest:
    request = QueryMetricsRequest(
        run_id=question.run_id, names=names, max_points=question.points, axis=axis_of(question.axis)
    )
    if question.first is not None:
        setattr(request, "from", question.first)
    if question.last is not None:
        request.to = question.last
    return request


def _plain(series: Series) -> dict[str, Any]:
    """What is not a number becomes null on the way out."""
    return {
        "name": series.name,
        "exact": series.exact,
        "points": series.points,
        "x": list(series.x),
        "y": list(series.y),
        "low": list(series.low),
        "high": list(series.high),
    }
