"""Episodes for the scrubber: recorded values as JSON, frames as JPEG."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response

from runspine.services.dashboard.core.episode_view import episode_steps, episode_summary
from runspine.services.dashboard.edges.episode_frames import EpisodeFrames, LoadedEpisode
from runspine.services.dashboard.edges.login.session import session_of
from runspine.services.dashboard.edges.responses import json_response

MAX_STEPS = 500
# An ended episode and its frames never change.
IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}


def add_episode_api(app: FastAPI, frames: EpisodeFrames) -> None:
    async def load(request: Request, run_id: str, which: str) -> LoadedEpisode:
        return await frames.load(session_of(request.scope).person.token, run_id, which)

    @app.get("/api/runs/{run_id}/episodes/{which}")
    async def episode(request: Request, run_id: str, which: str) -> Response:
        return json_response(episode_summary((await load(request, run_id, which)).record))

    @app.get("/api/runs/{run_id}/episodes/{which}/verdict")
    async def verdict(request: Request, run_id: str, which: str) -> Response:
        return json_response(await frames.verdict(await load(request, run_id, which)))

    @app.get("/api/runs/{run_id}/episodes/{which}/steps")
    async def some_steps(
        request: Request, run_id: str, which: str, first: int = 0, last: int = 100
    ) -> Response:
        found: list[Any] = episode_steps(
            (await load(request, run_id, which)).record, first, min(last, max(0, first) + MAX_STEPS)
        )
        return json_response(found)

    @app.get("/api/runs/{run_id}/episodes/{which}/frames/{number}")
    async def frame(request: Request, run_id: str, which: str, number: int) -> Response:
        path = await frames.frame(await load(request, run_id, which), number)
        return FileResponse(path, media_type="image/jpeg", headers=IMMUTABLE)
