"""TelemetryService over gRPC."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from runspine.grpc_errors import InvalidInput, translate_errors
from runspine.log import Corrupt
from runspine.log.link import Unreachable
from runspine.log.subjects import is_token
from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceServicer
from services.telemetry.core.rows import EPISODES, EVALUATIONS, LOGS, METRICS, STEPS
from services.telemetry.edges.batches import BatchReader, Read
from services.telemetry.edges.following import Window
from services.telemetry.edges.log_search import LogSearch
from services.telemetry.edges.metrics import FOLLOWERS, LINES, STREAMS
from services.telemetry.edges.queries import MOST_SERIES, Queries
from services.telemetry.edges.segment_store import Gone, NotStored
from services.telemetry.edges.sql import Sql

T = TypeVar("T")
MOST_POINTS = 100_000
MOST_EPISODES = 1000
MOST_LINES = 100_000
MOST_ROWS = 1_000_000
MOST_QUERY = 100_000
MOST_TEXT = 10_000
# A number with more digits is none that was given out.
MOST_DIGITS = 18
TRIES = 3


class Violation(NamedTuple):
    field: str
    message: str


@translate_errors
class TelemetryServicer(TelemetryServiceServicer):
    def __init__(
        self, batches: BatchReader, queries: Queries, search: LogSearch, sql: Sql, window_bytes: int
    ) -> None:
        self._batches = batches
        self._queries = queries
        self._search = search
        self._sql = sql
        self._window_bytes = window_bytes

    async def StreamLogs(
        self, request: wire.StreamLogsRequest, context: Any
    ) -> AsyncIterator[wire.StreamLogsResponse]:
        """Each answer waits until the caller has room for it, so a slow one holds one pull at most."""
        with STREAMS.track_inprogress():
            async for position, attempt, batch in self._read(request, LOGS):
                if batch.logs.lines:
                    LINES.inc(len(batch.logs.lines))
                    yield wire.StreamLogsResponse(position=position, attempt=attempt, lines=batch.logs.lines)

    async def StreamSteps(
        self, request: wire.StreamRequest, context: Any
    ) -> AsyncIterator[wire.StreamStepsResponse]:
        """The one stream that can be more than a caller takes: live, it is told what it missed."""
        _check_run(request.run_id)
        source = self._batches.read(request.run_id, STEPS, request.after, request.follow)
        with FOLLOWERS.track_inprogress():
            async with aclosing(Window(self._window_bytes).through(source)) as answers:
                async for arrival, missed_from, missed_to in _told(answers):
                    yield wire.StreamStepsResponse(
                        position=arrival.position,
                        attempt=arrival.batch.attempt,
                        blocks=arrival.batch.steps.blocks,
                        missed_from=missed_from,
                        missed_to=missed_to,
                    )

    async def StreamEpisodes(
        self, request: wire.StreamRequest, context: Any
    ) -> AsyncIterator[wire.StreamEpisodesResponse]:
        with FOLLOWERS.track_inprogress():
            async for position, attempt, batch in self._read(request, EPISODES):
                yield wire.StreamEpisodesResponse(
                    position=position, attempt=attempt, episodes=batch.episodes.episodes
                )

    async def StreamMetrics(
        self, request: wire.StreamRequest, context: Any
    ) -> AsyncIterator[wire.StreamMetricsResponse]:
        with FOLLOWERS.track_inprogress():
            async for position, attempt, batch in self._read(request, METRICS):
                yield wire.StreamMetricsResponse(
                    position=position, attempt=attempt, blocks=batch.metrics.blocks
                )

    async def StreamEvaluations(
        self, request: wire.StreamRequest, context: Any
    ) -> AsyncIterator[wire.StreamEvaluationsResponse]:
        with FOLLOWERS.track_inprogress():
            async for position, attempt, batch in self._read(request, EVALUATIONS):
                yield wire.StreamEvaluationsResponse(
                    position=position, attempt=attempt, scores=batch.evaluations.scores
                )

    async def ListSeries(self, request: wire.ListSeriesRequest, context: Any) -> wire.ListSeriesResponse:
        _check_run(request.run_id)
        series = await _answer(lambda: self._queries.series(request.run_id))
        return wire.ListSeriesResponse(series=series)

    async def RecentMetrics(
        self, request: wire.RecentMetricsRequest, context: Any
    ) -> wire.RecentMetricsResponse:
        _check_run(request.run_id)
        _check("count", request.count, MOST_POINTS)
        count = request.count or 100
        _check("names", len(request.names), MOST_SERIES)
        series = await _answer(lambda: self._queries.recent(request.run_id, request.names, count))
        return wire.RecentMetricsResponse(series=series)

    async def QueryMetrics(
        self, request: wire.QueryMetricsRequest, context: Any
    ) -> wire.QueryMetricsResponse:
        _check_run(request.run_id)
        _check("max_points", request.max_points, MOST_POINTS)
        low = getattr(request, "from") if request.HasField("from") else -math.inf
        high = request.to if request.HasField("to") else math.inf
        if not low <= high:
            raise InvalidInput([Violation("from", f"{low} to {high} is no range")])
        if request.axis not in wire.Axis.values():
            raise InvalidInput([Violation("axis", f"{request.axis} is no axis")])
        axis = request.axis or wire.ENV_STEP
        points = request.max_points or 1000
        _check("names", len(request.names), MOST_SERIES)
        series = await _answer(
            lambda: self._queries.curves(request.run_id, request.names, axis, low, high, points)
        )
        return wire.QueryMetricsResponse(series=series)

    async def ListEpisodes(
        self, request: wire.ListEpisodesRequest, context: Any
    ) -> wire.ListEpisodesResponse:
        _check_run(request.run_id)
        _check("page_size", request.page_size, MOST_EPISODES)
        token = request.page_token
        if token and not (token.isascii() and token.isdecimal() and len(token) <= MOST_DIGITS):
            raise InvalidInput([Violation("page_token", "not one that was given out")])
        start, size = int(token or 0), request.page_size or 100
        return await _answer(
            lambda: self._queries.episodes(request.run_id, request.order, request.descending, start, size)
        )

    async def GetEpisode(self, request: wire.GetEpisodeRequest, context: Any) -> wire.GetEpisodeResponse:
        _check_run(request.run_id)
        index = request.index if request.HasField("index") else None
        if index is None and not request.episode_id:
            raise InvalidInput([Violation("episode_id", "name an episode, or give its index")])
        return await _answer(
            lambda: self._queries.episode(request.run_id, request.episode_id, request.attempt, index)
        )

    async def SearchLogs(
        self, request: wire.SearchLogsRequest, context: Any
    ) -> AsyncIterator[wire.StreamLogsResponse]:
        _check_run(request.run_id)
        _check("limit", request.limit, MOST_LINES)
        _check_length("text", request.text, MOST_TEXT)
        found = self._search.find(
            request.run_id, request.text, request.regular_expression, request.limit or 1000
        )
        async with aclosing(found) as answers:
            async for answer in _told(answers):
                yield answer

    async def Sql(self, request: wire.SqlRequest, context: Any) -> AsyncIterator[wire.SqlResponse]:
        _check_run(request.run_id)
        _check("max_rows", request.max_rows, MOST_ROWS)
        _check_length("query", request.query, MOST_QUERY)
        answers = self._sql.query(request.run_id, request.query, request.max_rows or 10_000)
        async with aclosing(answers):
            async for piece in _told(answers):
                yield wire.SqlResponse(arrow=piece)

    async def _read(self, request: Any, kind: str) -> AsyncIterator[tuple[int, int, wire.Batch]]:
        _check_run(request.run_id)
        reads = self._batches.read(request.run_id, kind, request.after, request.follow)
        async with aclosing(reads):
            read: Read
            async for read in _told(reads):
                yield read.arrival.position, read.arrival.batch.attempt, read.arrival.batch


def _check_run(run_id: str) -> None:
    if not is_token(run_id):
        raise InvalidInput([Violation("run_id", f"{run_id!r} is not a run's id")])


def _check(field: str, value: int, most: int) -> None:
    if value > most:
        raise InvalidInput([Violation(field, f"{value} is more than {most}")])


def _check_length(field: str, text: str, most: int) -> None:
    if len(text) > most:
        raise InvalidInput([Violation(field, f"{len(text)} characters are more than {most}")])


async def _answer(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask, and ask again when segments were replaced by larger ones in between."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            return await ask()
        except Gone as error:
            if last:
                raise Unreachable(f"the archive changes too fast: {error}") from error
        except NotStored as error:
            raise Corrupt(str(error)) from error
    raise AssertionError("unreachable")


async def _told(answers: Any) -> AsyncIterator[Any]:
    """What a stream reads that is not as it was written is told as such."""
    try:
        async for answer in answers:
            yield answer
    except NotStored as error:
        raise Corrupt(str(error)) from error
