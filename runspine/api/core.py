"""The calls behind both clients, as coroutines of one event loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from runspine.api.filters import matches_params
from runspine.domain.run import ENDED
from runspine.errors import InvalidError, RunNotFoundError
from runspine.ids import new_ulid
from runspine.rpc.async_client import ARTIFACTS, TELEMETRY, TRAINER, AsyncClient
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.lines_once import LinesOnce
from runspine.wire.v1 import artifacts_pb2 as artifacts
from runspine.wire.v1 import telemetry_pb2 as telemetry
from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import RunSpec

PAGE_RUNS = 100
PAGE_EPISODES = 1000
PAGE_FILES = 500
# Series in one call; the service takes no more names.
MAX_NAMES = 1000
# Points of all series in one reply of curves.
MAX_SAMPLES = 1_000_000
CONCURRENT_RUNS = 4
_ID_PART = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{4,26}\Z")


class ApiCore:
    """One method for each question to a service. Raises RunspineError."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = AsyncClient(endpoint)

    async def close(self) -> None:
        await self._client.close()

    async def get(self, run: str) -> trainer.GetResponse:
        """A run by its id, a unique beginning of it in either case, or its name."""
        try:
            return await self._get(run)
        except RunNotFoundError:
            if run == run.upper() or not _ID_PART.match(run):
                raise
        return await self._get(run.upper())

    async def _get(self, run: str) -> trainer.GetResponse:
        request = trainer.GetRequest(run_id=run)
        return await self._client.call(TRAINER, "Get", request, trainer.GetResponse)

    async def page(self, request: trainer.ListRequest, token: str) -> tuple[list[Run], str, int]:
        """Runs of one page, the token of the next one, and how many runs match in all."""
        page = trainer.ListRequest()
        page.CopyFrom(request)
        page.page_size, page.page_token = request.page_size or PAGE_RUNS, token
        found = await self._client.call(TRAINER, "List", page, trainer.ListResponse)
        runs = [each.run for each in found.runs if matches_params(each.run, request)]
        return runs, found.next_page_token, found.total

    async def series(self, run_id: str) -> Sequence[telemetry.SeriesInfo]:
        request = telemetry.ListSeriesRequest(run_id=run_id)
        found = await self._client.call(TELEMETRY, "ListSeries", request, telemetry.ListSeriesResponse)
        return found.series

    async def points(self, run_id: str, names: Sequence[str], times: bool) -> Mapping[str, Any]:
        """Every point by series, as chunks; after an interruption only what is missing is read again."""
        from runspine.api.tables import Points

        points = Points()
        for start in range(0, max(len(names), 1), MAX_NAMES):
            request = telemetry.ReadPointsRequest(
                run_id=run_id, names=names[start : start + MAX_NAMES], with_times=times
            )
            async with aclosing(self._resumed(request, points)) as answers:
                async for message in answers:
                    for block in message.blocks:
                        points.add(block)
            points.keep()
        return points.chunks

    async def _resumed(self, request: Any, points: Any) -> AsyncGenerator[Any, None]:
        """Messages of ReadPoints. A repeated call begins at the last position, with what was kept there."""
        answers = self._client.stream(TELEMETRY, "ReadPoints", request, on_retry=points.drop_unkept)
        async with aclosing(answers):
            async for message in answers:
                yield message
                if message.position:
                    request.after = message.position
                    points.keep()

    async def curves(self, run_id: str, names: Sequence[str], samples: int) -> Sequence[telemetry.Series]:
        """Curves of at most about `samples` points, as many at once as a reply can hold."""
        found: list[telemetry.Series] = []
        at_once = max(1, min(MAX_NAMES, MAX_SAMPLES // samples))
        for start in range(0, len(names), at_once):
            request = telemetry.QueryMetricsRequest(
                run_id=run_id, names=names[start : start + at_once], max_points=samples
            )
            reply = await self._client.call(
                TELEMETRY, "QueryMetrics", request, telemetry.QueryMetricsResponse
            )
            found += [series for series in reply.series if series.points]
        return found

    async def chunks(
        self, run_id: str, names: Sequence[str], samples: int | None, times: bool
    ) -> Mapping[str, Any]:
        """Points of a run's series by name: all of them, or about `samples` for each series."""
        from runspine.api.tables import sampled_chunks

        if samples is None:
            return await self.points(run_id, names, times)
        names = names or [info.name for info in await self.series(run_id)]
        return sampled_chunks(await self.curves(run_id, names, samples))

    async def chunks_of(
        self, run_ids: Sequence[str], names: Sequence[str], samples: int | None, times: bool
    ) -> dict[str, Mapping[str, Any]]:
        """The same for several runs, a few at a time, in the order of the ids."""
        room = asyncio.Semaphore(CONCURRENT_RUNS)

        async def one(run_id: str) -> Mapping[str, Any]:
            async with room:
                return await self.chunks(run_id, names, samples, times)

        tasks = {run_id: asyncio.ensure_future(one(run_id)) for run_id in dict.fromkeys(run_ids)}
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
        return {run_id: task.result() for run_id, task in tasks.items()}

    async def episodes(self, run_id: str) -> AsyncGenerator[telemetry.EpisodeEntry, None]:
        request = telemetry.ListEpisodesRequest(
            run_id=run_id, order=telemetry.BY_TIME, page_size=PAGE_EPISODES
        )
        while True:
            page = await self._client.call(TELEMETRY, "ListEpisodes", request, telemetry.ListEpisodesResponse)
            for entry in page.episodes:
                yield entry
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def episode(self, run_id: str, episode: int | str, attempt: int) -> telemetry.GetEpisodeResponse:
        """An episode by its index in the run, or by its id."""
        request = telemetry.GetEpisodeRequest(run_id=run_id)
        if isinstance(episode, str):
            request.episode_id, request.attempt = episode, attempt
        else:
            request.index = episode
        return await self._client.call(TELEMETRY, "GetEpisode", request, telemetry.GetEpisodeResponse)

    async def logs(
        self, run_id: str, follow: bool
    ) -> AsyncGenerator[tuple[int, list[telemetry.LogLine]], None]:
        """Lines with their attempt, each once, as they arrive."""
        request = telemetry.StreamLogsRequest(run_id=run_id, follow=follow)
        once = LinesOnce(request)
        async with aclosing(self._client.stream(TELEMETRY, "StreamLogs", request)) as answers:
            async for message in answers:
                if lines := once.take(message):
                    yield message.attempt, lines

    async def files(self, run_id: str) -> list[artifacts.Artifact]:
        request = artifacts.ListArtifactsRequest(run=run_id, page_size=PAGE_FILES)
        found: list[artifacts.Artifact] = []
        while True:
            page = await self._client.call(ARTIFACTS, "List", request, artifacts.ListArtifactsResponse)
            found += page.artifacts
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def sql(self, run_id: str, run_ids: Sequence[str], query: str, max_rows: int) -> bytes:
        """The result of a SELECT over one run or several, as an Arrow stream."""
        request = telemetry.SqlRequest(run_id=run_id, run_ids=run_ids, query=query, max_rows=max_rows)
        pieces: list[bytes] = []
        answers = self._client.stream(TELEMETRY, "Sql", request, on_retry=pieces.clear)
        async with aclosing(answers):
            async for message in answers:
                pieces.append(message.arrow)
        return b"".join(pieces)

    async def submit(self, spec: RunSpec, key: str) -> Run:
        request = trainer.SubmitRequest(spec=spec, idempotency_key=key or new_ulid())
        try:
            return (await self._client.call(TRAINER, "Submit", request, trainer.SubmitResponse)).run
        except InvalidError as error:
            # By the names that the caller gave.
            found = [replace(each, field=each.field.removeprefix("spec.")) for each in error.violations]
            raise InvalidError(error.message, found) from error

    async def cancel(self, run_id: str, reason: str) -> Run:
        request = trainer.CancelRequest(run_id=run_id, reason=reason)
        return (await self._client.call(TRAINER, "Cancel", request, trainer.CancelResponse)).run

    async def label(self, run_id: str, labels: Mapping[str, str]) -> Run:
        request = trainer.SetLabelsRequest(run_id=run_id, labels=labels)
        return (await self._client.call(TRAINER, "SetLabels", request, trainer.SetLabelsResponse)).run

    async def watch(self, run_id: str, after: int = 0) -> AsyncGenerator[trainer.WatchResponse, None]:
        """Facts and progress of a run until it has ended."""
        request = trainer.WatchRequest(run_id=run_id, until_end=True, after=after)
        async with aclosing(self._client.stream(TRAINER, "Watch", request)) as answers:
            async for message in answers:
                if message.facts and message.position <= request.after:
                    continue  # seen before the connection was lost
                request.after = max(request.after, message.position)
                yield message

    async def wait(self, run: Run, timeout: float | None) -> Run:
        """The run once it has ended. Raises TimeoutError."""
        if run.phase in ENDED:
            return run
        async with asyncio.timeout(timeout):
            async with aclosing(self.watch(run.id, run.position)) as messages:
                async for message in messages:
                    if message.HasField("run") and message.run.phase in ENDED:
                        return message.run
        return (await self.get(run.id)).run
