"""Queries for a run's series and episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runspine.errors import Violation
from runspine.rpc.errors import InvalidInputError
from runspine.services.telemetry.core.curves import CurveWindow
from runspine.services.telemetry.core.levels import DERIVED, Buckets
from runspine.services.telemetry.core.rows import ENVS, EPISODES, METRICS, STEPS
from runspine.services.telemetry.edges.curves import CurveReader
from runspine.services.telemetry.edges.episodes import EpisodeReader
from runspine.services.telemetry.edges.run_views import RunView, RunViews
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1.telemetry_pb2 import (
    EPISODE,
    Axis,
    EpisodeOrder,
    GetEpisodeResponse,
    ListEpisodesResponse,
    MetricBlock,
    Series,
    SeriesInfo,
)

CHARTED = (METRICS, EPISODES, STEPS)
# A run may have any number of series; more are not listed.
MAX_SERIES = 1000
# Of all series together: more do not fit into a message.
MAX_POINTS = 1_000_000


class QueryRunner:
    """Answers queries for series and episodes from a view of the run."""

    def __init__(self, views: RunViews, store: SegmentStore) -> None:
        self._views = views
        self._curves = CurveReader(store)
        self._episodes = EpisodeReader(store)

    async def series(self, run_id: str) -> list[SeriesInfo]:
        view = await self._views.view(run_id, *CHARTED, few=[STEPS])
        found = [await self._info(view, name) for name in names_of(view)]
        return [info for info in found if info.points]

    async def _info(self, view: RunView, name: str) -> SeriesInfo:
        buckets = await self._curves.whole(view, name)
        if not len(buckets):
            return SeriesInfo(name=name)
        return SeriesInfo(
            name=name,
            points=int(buckets.count.sum()),
            first_step=int(buckets.first_step.min()),
            last_step=int(buckets.last_step.max()),
            minimum=float(np.fmin.reduce(buckets.low)),
            maximum=float(np.fmax.reduce(buckets.high)),
            last=await self._curves.newest(view, name),
        )

    async def recent(self, run_id: str, names: Sequence[str], count: int) -> list[MetricBlock]:
        view = await self._views.view(run_id, *kinds_of(names))
        found = []
        names = names or names_of(view)
        check_total_points("count", len(names), count)
        for name in names:
            points = await self._curves.last(view, name, count)
            found.append(_block(name, points))
        return found

    async def curves(
        self, run_id: str, names: Sequence[str], axis: Axis, low: float, high: float, max_points: int
    ) -> list[Series]:
        kinds = kinds_of(names) | ({EPISODES} if axis == EPISODE else set())
        view = await self._views.view(run_id, *kinds)
        ends = await self._episodes.end_times(view) if axis == EPISODE else None
        window = CurveWindow(axis, low, high, ends)
        names = names or names_of(view)
        check_total_points("max_points", len(names), max_points)
        return [await self._curves.curve(view, name, window, max_points) for name in names]

    async def episodes(
        self, run_id: str, order: EpisodeOrder, descending: bool, start: int, size: int
    ) -> ListEpisodesResponse:
        view = await self._views.view(run_id, EPISODES)
        entries, total = await self._episodes.page(view, order, descending, start, size)
        following = start + len(entries)
        token = str(following) if following < total and entries else ""
        return ListEpisodesResponse(episodes=entries, next_page_token=token, total=total)

    async def episode(
        self, run_id: str, episode_id: str, attempt: int, index: int | None
    ) -> GetEpisodeResponse:
        view = await self._views.view(run_id, ENVS, STEPS, EPISODES, untabled=[ENVS, STEPS])
        if index is not None:
            found = await self._episodes.at(view, index)
            episode_id, attempt = found.entry.episode.episode_id, found.entry.attempt
            return await self._episodes.read(view, found, episode_id, attempt)
        known = await self._episodes.find(view, episode_id, attempt)
        if known:
            attempt = known.entry.attempt
        return await self._episodes.read(view, known, episode_id, attempt)


def check_total_points(field: str, series: int, points: int) -> None:
    """Refuse a query for many series with many points each."""
    if series * points > MAX_POINTS:
        message = f"{series} series of {points} points are more than {MAX_POINTS}: request fewer"
        raise InvalidInputError([Violation(field, message)])


def kinds_of(names: Sequence[str]) -> set[str]:
    """Kinds that hold these series. Without names: all except the series of single steps."""
    return {DERIVED.get(name, METRICS) for name in names} or {METRICS, EPISODES}


def names_of(view: RunView) -> list[str]:
    names = {s.name for found in view.archived.values() for segment in found for s in segment.series}
    for kind in view.tables:
        names |= view.tail_stretches(kind).keys()
    return sorted(names)[:MAX_SERIES]


def _block(name: str, points: Buckets) -> MetricBlock:
    return MetricBlock(name=name, values=points.low, steps=points.first_step, at=points.first_at)
