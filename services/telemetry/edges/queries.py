"""Questions about a run's series and episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from runspine.grpc_errors import InvalidInput
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
from services.telemetry.core.curves import Window
from services.telemetry.core.levels import DERIVED, Buckets
from services.telemetry.core.rows import ENVS, EPISODES, METRICS, STEPS
from services.telemetry.edges.curves import Curves
from services.telemetry.edges.episodes import Episodes
from services.telemetry.edges.segment_store import SegmentStore
from services.telemetry.edges.views import View, Views

CHARTED = (METRICS, EPISODES, STEPS)
# Series of a run that were never counted may be many; nobody looks at more at once.
MOST_SERIES = 1000
# Of all series together: more would not fit into a message.
MOST_POINTS = 1_000_000


class _Flaw(NamedTuple):
    field: str
    message: str


class Queries:
    def __init__(self, views: Views, store: SegmentStore) -> None:
        self._views = views
        self._curves = Curves(store)
        self._episodes = Episodes(store)

    async def series(self, run_id: str) -> list[SeriesInfo]:
        view = await self._views.of(run_id, *CHARTED, few=[STEPS])
        found = [await self._info(view, name) for name in names_of(view)]
        return [info for info in found if info.points]

    async def _info(self, view: View, name: str) -> SeriesInfo:
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
        view = await self._views.of(run_id, *kinds_of(names))
        found = []
        names = names or names_of(view)
        refuse_too_many("count", len(names), count)
        for name in names:
            points = await self._curves.last(view, name, count)
            found.append(_block(name, points))
        return found

    async def curves(
        self, run_id: str, names: Sequence[str], axis: Axis, low: float, high: float, max_points: int
    ) -> list[Series]:
        kinds = kinds_of(names) | ({EPISODES} if axis == EPISODE else set())
        view = await self._views.of(run_id, *kinds)
        ends = await self._episodes.ends(view) if axis == EPISODE else None
        window = Window(axis, low, high, ends)
        names = names or names_of(view)
        refuse_too_many("max_points", len(names), max_points)
        return [await self._curves.curve(view, name, window, max_points) for name in names]

    async def episodes(
        self, run_id: str, order: EpisodeOrder, descending: bool, start: int, size: int
    ) -> ListEpisodesResponse:
        view = await self._views.of(run_id, EPISODES)
        entries, total = await self._episodes.page(view, order, descending, start, size)
        following = start + len(entries)
        token = str(following) if following < total and entries else ""
        return ListEpisodesResponse(episodes=entries, next_page_token=token, total=total)

    async def episode(
        self, run_id: str, episode_id: str, attempt: int, index: int | None
    ) -> GetEpisodeResponse:
        view = await self._views.of(run_id, ENVS, STEPS, EPISODES, untabled=[ENVS, STEPS])
        if index is not None:
            found = await self._episodes.at(view, index)
            episode_id, attempt = found.entry.episode.episode_id, found.entry.attempt
            return await self._episodes.whole(view, found, episode_id, attempt)
        known = await self._episodes.find(view, episode_id, attempt)
        if known:
            attempt = known.entry.attempt
        return await self._episodes.whole(view, known, episode_id, attempt)


def refuse_too_many(field: str, series: int, points: int) -> None:
    """Many series or many points each, not both."""
    if series * points > MOST_POINTS:
        message = (
            f"{series} series of {points} points are more than {MOST_POINTS}: name fewer, or ask for fewer"
        )
        raise InvalidInput([_Flaw(field, message)])


def kinds_of(names: Sequence[str]) -> set[str]:
    """Where these series are. When none is named: all but those of single steps."""
    return {DERIVED.get(name, METRICS) for name in names} or {METRICS, EPISODES}


def names_of(view: View) -> list[str]:
    names = {s.name for found in view.archived.values() for segment in found for s in segment.series}
    for kind in view.tables:
        names |= view.tailing(kind).keys()
    return sorted(names)[:MOST_SERIES]


def _block(name: str, points: Buckets) -> MetricBlock:
    return MetricBlock(name=name, values=points.low, steps=points.first_step, at=points.first_at)
