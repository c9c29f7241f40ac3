"""TelemetryService over gRPC."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from runspine.errors import Violation
from runspine.eventlog import CorruptError
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.subjects import is_token
from runspine.rpc.errors import InvalidInputError, translate_errors
from runspine.services.telemetry.core.rows import EPISODES, EVALUATIONS, METRICS, STEPS
from runspine.services.telemetry.edges.batches import BatchReader, ReadBatch
from runspine.services.telemetry.edges.cross_run_sql import CrossRunSql
from runspine.services.telemetry.edges.log_lines import LogReader
from runspine.services.telemetry.edges.log_ranges import LogRanges
from runspine.services.telemetry.edges.log_search import LogSearch
from runspine.services.telemetry.edges.metrics import FOLLOWERS, LINES, STREAMS
from runspine.services.telemetry.edges.points import PointReader
from runspine.services.telemetry.edges.queries import MAX_SERIES, QueryRunner
from runspine.services.telemetry.edges.segment_store import SegmentGoneError, SegmentNotStoredError
from runspine.services.telemetry.edges.sql import SqlRunner
from runspine.services.telemetry.edges.stream_window import StreamWindow
from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceServicer

T = TypeVar("T")
MAX_POINTS = 100_000
MAX_EPISODES = 1000
MAX_LINES = 100_000
# Lines of one range, and the largest number of a line that is asked for.
MAX_RANGE, MAX_LINE_NUMBER = 10_000, 1 << 62
MAX_ROWS = 1_000_000
MAX_SQL_RUNS = 10_000
MAX_QUERY = 100_000
MAX_TEXT = 10_000
# A page token with more digits is invalid.
MAX_TOKEN_DIGITS = 18
MAX_TRIES = 3


@translate_errors
class TelemetryServicer(TelemetryServiceServicer):
    """The calls of TelemetryService."""

    def __init__(
        self,
        batches: BatchReader,
        queries: QueryRunner,
        logs: LogReader,
        log_ranges: LogRanges,
        sql: SqlRunner,
        cross_run_sql: CrossRunSql,
        points: PointReader,
        window_bytes: int,
    ) -> None:
        self._batches = batches
        self._logs = logs
        self._queries = queries
        self._search = LogSearch(logs)
        self._log_ranges = log_ranges
        self._sql = sql
        self._cross_run_sql = cross_run_sql
        self._points = points
        self._window_bytes = window_bytes

    async def StreamLogs(
        self, request: wire.StreamLogsRequest, context: Any
    ) -> AsyncIterator[wire.StreamLogsResponse]:
        """Each answer waits until the caller has room for it, so a slow caller holds one pull at most."""
        with STREAMS.track_inprogress():
            _check_run(request.run_id)
            async with aclosing(self._logs.read(request.run_id, request.after, request.follow)) as arrivals:
                async for position, batch in _translated(arrivals):
                    LINES.inc(len(batch.logs.lines))
                    yield wire.StreamLogsResponse(
                        position=position, attempt=batch.attempt, lines=batch.logs.lines
                    )

    async def StreamSteps(
        self, request: wire.StreamRequest, context: Any
    ) -> AsyncIterator[wire.StreamStepsResponse]:
        """Live steps can outpace the caller: the answer then states the positions that it missed."""
        _check_run(request.run_id)
        source = self._batches.read(request.run_id, STEPS, request.after, request.follow)
        with FOLLOWERS.track_inprogress():
            async with aclosing(StreamWindow(self._window_bytes).through(source)) as answers:
                async for arrival, missed_from, missed_to in _translated(answers):
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
        series = await _retried(lambda: self._queries.series(request.run_id))
        return wire.ListSeriesResponse(series=series)

    async def RecentMetrics(
        self, request: wire.RecentMetricsRequest, context: Any
    ) -> wire.RecentMetricsResponse:
        _check_run(request.run_id)
        _check("count", request.count, MAX_POINTS)
        count = request.count or 100
        _check("names", len(request.names), MAX_SERIES)
        series = await _retried(lambda: self._queries.recent(request.run_id, request.names, count))
        return wire.RecentMetricsResponse(series=series)

    async def QueryMetrics(
        self, request: wire.QueryMetricsRequest, context: Any
    ) -> wire.QueryMetricsResponse:
        _check_run(request.run_id)
        _check("max_points", request.max_points, MAX_POINTS)
        low = getattr(request, "from") if request.HasField("from") else -math.inf
        high = request.to if request.HasField("to") else math.inf
        if not low <= high:
            raise InvalidInputError([Violation("from", f"{low} to {high} is not a range")])
        if request.axis not in wire.Axis.values():
            raise InvalidInputError([Violation("axis", f"{request.axis} is not an axis")])
        axis = request.axis or wire.ENV_STEP
        points = request.max_points or 1000
        _check("names", len(request.names), MAX_SERIES)
        series = await _retried(
            lambda: self._queries.curves(request.run_id, request.names, axis, low, high, points)
        )
        return wire.QueryMetricsResponse(series=series)

    async def ReadPoints(
        self, request: wire.ReadPointsRequest, context: Any
    ) -> AsyncIterator[wire.ReadPointsResponse]:
        _check_run(request.run_id)
        _check("names", len(request.names), MAX_SERIES)
        found = self._points.read(request.run_id, request.names, request.with_times, request.after)
        async with aclosing(found):
            async for answer in _translated(found):
                yield answer

    async def ListEpisodes(
        self, request: wire.ListEpisodesRequest, context: Any
    ) -> wire.ListEpisodesResponse:
        _check_run(request.run_id)
        _check("page_size", request.page_size, MAX_EPISODES)
        token = request.page_token
        if token and not (token.isascii() and token.isdecimal() and len(token) <= MAX_TOKEN_DIGITS):
            raise InvalidInputError([Violation("page_token", "is not a token of a previous page")])
        start, size = int(token or 0), request.page_size or 100
        return await _retried(
            lambda: self._queries.episodes(request.run_id, request.order, request.descending, start, size)
        )

    async def GetEpisode(self, request: wire.GetEpisodeRequest, context: Any) -> wire.GetEpisodeResponse:
        _check_run(request.run_id)
        index = request.index if request.HasField("index") else None
        if index is None and not request.episode_id:
            raise InvalidInputError(
                [Violation("episode_id", "is missing: give the id of an episode, or its index")]
            )
        return await _retried(
            lambda: self._queries.episode(request.run_id, request.episode_id, request.attempt, index)
        )

    async def SearchLogs(
        self, request: wire.SearchLogsRequest, context: Any
    ) -> AsyncIterator[wire.StreamLogsResponse]:
        _check_run(request.run_id)
        _check("limit", request.limit, MAX_LINES)
        _check_length("text", request.text, MAX_TEXT)
        found = self._search.find(
            request.run_id, request.text, request.regular_expression, request.limit or 1000
        )
        async with aclosing(found) as answers:
            async for answer in _translated(answers):
                yield answer

    async def ReadLogLines(
        self, request: wire.ReadLogLinesRequest, context: Any
    ) -> wire.ReadLogLinesResponse:
        _check_run(request.run_id)
        _check("count", request.count, MAX_RANGE)
        _check("first", request.first, MAX_LINE_NUMBER)
        return await _retried(
            lambda: self._log_ranges.read(
                request.run_id, request.attempt, max(1, request.first), request.count
            )
        )

    async def Sql(self, request: wire.SqlRequest, context: Any) -> AsyncIterator[wire.SqlResponse]:
        _check("max_rows", request.max_rows, MAX_ROWS)
        _check_length("query", request.query, MAX_QUERY)
        rows = request.max_rows or 10_000
        if request.run_ids:
            _check_runs(request)
            answers = self._cross_run_sql.query(request.run_ids, request.query, rows)
        else:
            _check_run(request.run_id)
            answers = self._sql.query(request.run_id, request.query, rows)
        async with aclosing(answers):
            async for piece in _translated(answers):
                yield wire.SqlResponse(arrow=piece)

    async def _read(self, request: Any, kind: str) -> AsyncIterator[tuple[int, int, wire.Batch]]:
        _check_run(request.run_id)
        reads = self._batches.read(request.run_id, kind, request.after, request.follow)
        async with aclosing(reads):
            read: ReadBatch
            async for read in _translated(reads):
                yield read.arrival.position, read.arrival.batch.attempt, read.arrival.batch


def _check_run(run_id: str) -> None:
    if not is_token(run_id):
        raise InvalidInputError([Violation("run_id", f"{run_id!r} is not a run's id")])


def _check_runs(request: wire.SqlRequest) -> None:
    _check("run_ids", len(request.run_ids), MAX_SQL_RUNS)
    if request.run_id:
        raise InvalidInputError([Violation("run_id", "is given besides run_ids: leave one of them out")])
    for number, run_id in enumerate(request.run_ids):
        if not is_token(run_id):
            raise InvalidInputError([Violation(f"run_ids[{number}]", f"{run_id!r} is not a run's id")])


def _check(field: str, value: int, limit: int) -> None:
    if value > limit:
        raise InvalidInputError([Violation(field, f"{value} is more than {limit}")])


def _check_length(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise InvalidInputError([Violation(field, f"{len(text)} characters are more than {limit}")])


async def _retried(query: Callable[[], Awaitable[T]]) -> T:
    """Run a query, and again when segments were replaced by larger ones meanwhile."""
    for last in (False,) * (MAX_TRIES - 1) + (True,):
        try:
            return await query()
        except SegmentGoneError as error:
            if last:
                raise NatsUnreachableError(f"the archive changes too fast: {error}") from error
        except SegmentNotStoredError as error:
            raise CorruptError(str(error)) from error
    raise AssertionError("unreachable")


async def _translated(answers: Any) -> AsyncIterator[Any]:
    """The answers of a stream, with damaged segments raised as CorruptError."""
    try:
        async for answer in answers:
            yield answer
    except SegmentNotStoredError as error:
        raise CorruptError(str(error)) from error
