"""What a run left behind: log lines by ranges, episodes, files."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.errors import InvalidError
from runspine.services.dashboard.core.artifact_address import artifact_url
from runspine.services.dashboard.core.run_row import finite_or_none
from runspine.services.dashboard.edges.api import shapes
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.responses import json_response
from runspine.spec.plain import enum_word
from runspine.text.artifacts import retained_parts
from runspine.wire.v1 import artifacts_pb2
from runspine.wire.v1.telemetry_pb2 import (
    BY_LENGTH,
    BY_RETURN,
    BY_TIME,
    EpisodeEntry,
    ListEpisodesRequest,
    LogLine,
    LogSource,
    ReadLogLinesRequest,
    SearchLogsRequest,
)

MAX_LINES, MAX_HITS, MAX_LINE_LENGTH = 1000, 500, 4000
MAX_EPISODES, MAX_FILES = 200, 500
ORDERS = {"time": BY_TIME, "return": BY_RETURN, "length": BY_LENGTH}
ENDS = ("", "terminated", "truncated", "terminated, truncated")


class RecordsApi:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def add_to(self, app: FastAPI) -> None:
        get: Any = app.get
        get("/runs/{run_id}/log", response_model=shapes.LogRange)(self.log)
        get("/runs/{run_id}/log/search", response_model=shapes.LogHits)(self.search)
        get("/runs/{run_id}/episodes", response_model=shapes.EpisodesPage)(self.episodes)
        get("/runs/{run_id}/files", response_model=shapes.FilesShape)(self.files)

    async def log(
        self,
        request: Request,
        run_id: str,
        attempt: Annotated[int, Query(ge=0, lt=2**32)] = 0,
        first: Annotated[int, Query(ge=0, lt=2**62)] = 1,
        count: Annotated[int, Query(ge=0, le=MAX_LINES)] = 200,
    ) -> Response:
        """Lines of an attempt from a number on (the first is 1), and how many lines each attempt has."""
        message = ReadLogLinesRequest(run_id=run_id, attempt=attempt, first=first, count=count)
        answer = await self._backend.access_of(request.scope).call("telemetry", "ReadLogLines", message)
        return json_response(
            shapes.LogRange(
                [shapes.AttemptLines(one.attempt, one.lines) for one in answer.attempts],
                [_line(answer.attempt, line) for line in answer.lines],
            )
        )

    async def search(
        self, request: Request, run_id: str, text: str, regular: bool = False, limit: int = MAX_HITS
    ) -> Response:
        """Lines that hold a text or match a regular expression."""
        limit = max(1, min(limit, MAX_HITS))
        message = SearchLogsRequest(run_id=run_id, text=text, regular_expression=regular, limit=limit)
        found: list[shapes.LogLineShape] = []
        access = self._backend.access_of(request.scope)
        async for answer in access.stream("telemetry", "SearchLogs", message):
            found += [_line(answer.attempt, line) for line in answer.lines]
        return json_response(shapes.LogHits(found, len(found) >= limit))

    async def episodes(
        self,
        request: Request,
        run_id: str,
        order: str = "time",
        descending: bool = True,
        page: str = "",
        count: Annotated[int, Query(ge=1, le=MAX_EPISODES)] = 50,
    ) -> Response:
        """Episodes by time, return or length."""
        if order not in ORDERS:
            raise InvalidError(f"order: {order!r} is not one of {', '.join(ORDERS)}")
        message = ListEpisodesRequest(
            run_id=run_id, order=ORDERS[order], descending=descending, page_size=count, page_token=page
        )
        answer = await self._backend.access_of(request.scope).call("telemetry", "ListEpisodes", message)
        episodes = [_episode(each) for each in answer.episodes]
        return json_response(shapes.EpisodesPage(answer.total, answer.next_page_token, episodes))

    async def files(self, request: Request, run_id: str) -> Response:
        """Artifacts of a run, and what its retention rules keep."""
        access = self._backend.access_of(request.scope)
        message = artifacts_pb2.ListArtifactsRequest(run=run_id, with_pruned=True, page_size=MAX_FILES)
        found = await access.call("artifacts", "List", message)
        rules = await access.call("artifacts", "GetRetention", artifacts_pb2.GetRetentionRequest(run=run_id))
        return json_response(
            shapes.FilesShape(
                found.total,
                [_file(each) for each in found.artifacts],
                [f"{part} retained" for status in rules.statuses for part in retained_parts(status)],
            )
        )


def _line(attempt: int, line: LogLine) -> shapes.LogLineShape:
    text = line.text
    if len(text) > MAX_LINE_LENGTH:
        text = f"{text[:MAX_LINE_LENGTH]} … ({len(line.text):,} characters; see `runspine logs`)"
    source = enum_word(LogSource.DESCRIPTOR, line.source)
    return shapes.LogLineShape(attempt, line.number, line.at // 1000, source, text)


def _episode(entry: EpisodeEntry) -> shapes.EpisodeShape:
    episode = entry.episode
    return shapes.EpisodeShape(
        entry.index, entry.attempt, episode.episode_id, finite_or_none(getattr(episode, "return")),
        episode.steps if episode.HasField("steps") else None, episode.slot, episode.agent_id,
        episode.ended_at // 1000, ENDS[episode.flags & 3],
    )  # fmt: skip


def _file(artifact: artifacts_pb2.Artifact) -> shapes.FileShape:
    integrity = enum_word(artifacts_pb2.Integrity.DESCRIPTOR, artifact.integrity)
    keeping = enum_word(artifacts_pb2.Keeping.DESCRIPTOR, artifact.keeping)
    there = artifact.keeping == artifacts_pb2.KEPT and artifact.integrity == artifacts_pb2.GOOD
    return shapes.FileShape(
        artifact.digest, artifact.name, artifact.kind, artifact.size, artifact.step,
        artifact.produced_at // 1000,
        integrity, keeping, artifact.pinned, artifact_url(artifact) if there else "",
    )  # fmt: skip
