"""Curves of a run's series: from summaries and levels where these suffice, otherwise from points."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core.curves import Column, CurveWindow, bucketed, exact, sift, size_for
from runspine.services.telemetry.core.levels import (
    COLUMNS,
    DERIVED,
    SIZES,
    Buckets,
    buckets_of,
    from_summaries,
    single_points,
    stretches,
)
from runspine.services.telemetry.core.rows import METRICS, STEPS
from runspine.services.telemetry.core.visibility import Cutoffs
from runspine.services.telemetry.edges.run_views import RunView, SeriesPart
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1.telemetry_pb2 import ENV_STEP, Series

POINT = 0
EVERYTHING = CurveWindow(ENV_STEP, -np.inf, np.inf)


class CurveReader:
    """Reads curves and points of a run's series."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    async def curve(self, view: RunView, name: str, window: CurveWindow, max_points: int) -> Series:
        kind, cutoffs = kind_and_cutoffs(view, name)
        tail = tail_points(view, kind, name, window)
        parts = parts_in(view.parts(kind, name), window, cutoffs)
        size = size_for(estimate(parts, window) + len(tail), max_points)
        everything = Buckets.join([*await self._gather(parts, name, window, cutoffs, size), tail])
        count = int(everything.count.sum())
        finer = POINT if count <= max_points else size_for(count, max_points)
        if finer < size:
            everything = Buckets.join([*await self._gather(parts, name, window, cutoffs, finer), tail])
        if count <= max_points:
            return exact(name, everything, window)
        return await asyncio.to_thread(bucketed, name, everything, window, max_points)

    async def last(self, view: RunView, name: str, count: int) -> Buckets:
        """The newest points of a series, in order of arrival."""
        kind, cutoffs = kind_and_cutoffs(view, name)
        tail = tail_points(view, kind, name, EVERYTHING)
        found, have = [tail], len(tail)
        for part in reversed(parts_in(view.parts(kind, name), EVERYTHING, cutoffs)):
            if have >= count:
                break
            summary = part.summary
            end = summary.row + summary.points
            # The newest visible points of a superseded attempt can be anywhere.
            start = summary.row if summary.attempt in cutoffs else max(summary.row, end - count)
            points = await self._points(part, name, [(start, end)], EVERYTHING, cutoffs)
            found.insert(0, points)
            have += len(points)
        points = Buckets.join(found)
        return points.pick(np.arange(max(0, len(points) - count), len(points)))

    async def newest(self, view: RunView, name: str) -> float:
        """The last value of a series, usually from a summary without reading rows."""
        kind, cutoffs = kind_and_cutoffs(view, name)
        tail = view.tail_points(kind, name)
        if len(tail):
            return float(tail.low[-1])
        parts = view.parts(kind, name)
        if parts and parts[-1].summary.attempt not in cutoffs:
            return parts[-1].summary.last
        points = await self.last(view, name, 1)
        return float(points.low[-1]) if len(points) else float("nan")

    async def whole(self, view: RunView, name: str) -> Buckets:
        """All visible points of a series, as a few buckets."""
        kind, cutoffs = kind_and_cutoffs(view, name)
        parts = parts_in(view.parts(kind, name), EVERYTHING, cutoffs)
        found = await self._gather(parts, name, EVERYTHING, cutoffs, SIZES[-1] * SIZES[-1])
        return Buckets.join([*found, tail_points(view, kind, name, EVERYTHING)])

    async def _gather(
        self, parts: Sequence[SeriesPart], name: str, window: CurveWindow, cutoffs: Cutoffs, size: int
    ) -> list[Buckets]:
        """Buckets of the parts: those covered by their summary first, then those read from levels or
        points."""
        buckets, inside, _ = sifted(parts, window, cutoffs)
        summarized = inside & (buckets.count <= size)
        rest = [part for part, is_whole in zip(parts, summarized.tolist(), strict=True) if not is_whole]
        read = (self._part(part, name, window, cutoffs, size) for part in rest)
        return [buckets.pick(summarized), *await asyncio.gather(*read)]

    async def _part(
        self, part: SeriesPart, name: str, window: CurveWindow, cutoffs: Cutoffs, size: int
    ) -> Buckets:
        """Buckets of about one size, and finer ones where the window or a cutoff cuts through them."""
        summary, cutoff = part.summary, cutoffs.get(part.summary.attempt)
        ranges = [(int(summary.row), int(summary.row + summary.points))]
        kept: list[Buckets] = []
        # Whole buckets are kept from the wanted size down; those that are cut are read one level finer.
        for level in sorted((s for s in SIZES if size and s <= size), reverse=True):
            table = await self._store.level(part.segment, level)
            buckets = _within(buckets_of(table, name, summary.attempt), ranges)
            if not len(buckets):
                continue
            inside, cut = sift(buckets, window, cutoff)
            kept.append(buckets.pick(inside))
            ranges = joined_ranges(buckets.pick(cut))
            if not ranges:
                return Buckets.join(kept)
        if not size:
            ranges = await self._narrowed(part, name, window, cutoff, ranges)
        kept.append(await self._points(part, name, ranges, window, cutoffs))
        return Buckets.join(kept)

    async def _narrowed(
        self,
        part: SeriesPart,
        name: str,
        window: CurveWindow,
        cutoff: int | None,
        ranges: list[tuple[int, int]],
    ) -> list[tuple[int, int]]:
        """The rows that can hold points of the window, according to the finest level."""
        if not part.segment.levels_key or part.summary.points <= 2 * SIZES[0]:
            return ranges
        table = await self._store.level(part.segment, SIZES[0])
        buckets = _within(buckets_of(table, name, part.summary.attempt), ranges)
        inside, cut = sift(buckets, window, cutoff)
        return joined_ranges(buckets.pick(inside | cut))

    async def _points(
        self,
        part: SeriesPart,
        name: str,
        ranges: list[tuple[int, int]],
        window: CurveWindow,
        cutoffs: Cutoffs,
    ) -> Buckets:
        if not ranges:
            return Buckets.join([])
        found = []
        for row, table in await self._store.rows(part.segment, COLUMNS[part.segment.kind], ranges):
            found.append(await asyncio.to_thread(points_in, part, table, row, name, ranges, window, cutoffs))
        return Buckets.join(found)


def points_in(
    part: SeriesPart,
    table: pa.Table,
    row: int,
    name: str,
    ranges: Sequence[tuple[int, int]],
    window: CurveWindow,
    cutoffs: Cutoffs,
) -> Buckets:
    """The points of a piece of a segment that are in the ranges of rows and in the window."""
    found = []
    for stretch in stretches(part.segment.kind, table, row, only=name):
        if stretch.attempt == part.summary.attempt:
            points = _within(single_points(stretch), ranges)
            inside, _ = sift(points, window, cutoffs.get(stretch.attempt))
            found.append(points.pick(inside))
    return Buckets.join(found)


def tail_points(view: RunView, kind: str, name: str, window: CurveWindow) -> Buckets:
    """Points in the window that are not archived yet."""
    points = view.tail_points(kind, name)
    if window is EVERYTHING:
        return points
    inside, _ = sift(points, window, None)
    return points if inside.all() else points.pick(inside)


def kind_and_cutoffs(view: RunView, name: str) -> tuple[str, Cutoffs]:
    kind = DERIVED.get(name, METRICS)
    if kind != STEPS:
        return kind, view.cutoffs
    # A checkpoint after n steps does not contain the step that begins at counter n.
    return kind, {attempt: cutoff - 1 for attempt, cutoff in view.cutoffs.items()}


def parts_in(parts: Sequence[SeriesPart], window: CurveWindow, cutoffs: Cutoffs) -> list[SeriesPart]:
    """The parts with points in the window."""
    _, inside, cut = sifted(parts, window, cutoffs)
    return [part for part, is_chosen in zip(parts, (inside | cut).tolist(), strict=True) if is_chosen]


def sifted(
    parts: Sequence[SeriesPart], window: CurveWindow, cutoffs: Cutoffs
) -> tuple[Buckets, Column, Column]:
    """Each part as one bucket; which are in the window whole, and which only in part."""
    buckets = from_summaries([part.summary for part in parts])
    attempts = np.array([part.summary.attempt for part in parts], np.int64)
    inside, cut = np.zeros(len(parts), bool), np.zeros(len(parts), bool)
    for attempt in np.unique(attempts).tolist():
        here = attempts == attempt
        whole, partly = sift(buckets, window, cutoffs.get(attempt))
        inside |= here & whole
        cut |= here & partly
    return buckets, inside, cut


def estimate(parts: Sequence[SeriesPart], window: CurveWindow) -> int:
    """Estimated number of points in the window, as if the points of each part were spread evenly."""
    buckets = from_summaries([part.summary for part in parts])
    first, last = window.firsts(buckets), window.lasts(buckets)
    width = np.maximum(last - first, 1e-9)
    share = (np.minimum(last, window.high) - np.maximum(first, window.low)) / width
    return int((np.clip(share, 0, 1) * buckets.count).sum())


def joined_ranges(buckets: Buckets) -> list[tuple[int, int]]:
    """The row ranges of these buckets, adjacent ones merged."""
    ranges: list[tuple[int, int]] = []
    for row, count in zip(buckets.row.tolist(), buckets.count.tolist(), strict=True):
        if ranges and ranges[-1][1] == row:
            ranges[-1] = (ranges[-1][0], row + count)
        else:
            ranges.append((row, row + count))
    return ranges


def _within(buckets: Buckets, ranges: Sequence[tuple[int, int]]) -> Buckets:
    """Buckets that begin in one of the ranges."""
    if not len(buckets):
        return buckets
    starts = np.array([start for start, _ in ranges], np.uint64)
    ends = np.array([end for _, end in ranges], np.uint64)
    at = np.searchsorted(starts, buckets.row, side="right").astype(np.int64) - 1
    return buckets.pick((at >= 0) & (buckets.row < ends[np.maximum(at, 0)]))
