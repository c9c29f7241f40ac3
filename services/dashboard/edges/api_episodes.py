"""Episodes for the scrubber: what is on record as JSON, frames as JPEG."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response

from services.dashboard.core.scene import about, steps
from services.dashboard.edges.answers import as_json
from services.dashboard.edges.login import COOKIE
from services.dashboard.edges.theatre import Scene, Theatre

MOST_STEPS = 500
# An episode that has ended never changes, nor do its frames.
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}


def add_episode_api(app: FastAPI, theatre: Theatre) -> None:
    async def scene_of(request: Request, run_id: str, which: str) -> Scene:
        return await theatre.scene(request.cookies.get(COOKIE, ""), run_id, which)

    @app.get("/api/runs/{run_id}/episodes/{which}")
    async def episode(request: Request, run_id: str, which: str) -> Response:
        return as_json(about((await scene_of(request, run_id, which)).record))

    @app.get("/api/runs/{run_id}/episodes/{which}/verdict")
    async def verdict(request: Request, run_id: str, which: str) -> Response:
        return as_json(await theatre.verdict(await scene_of(request, run_id, which)))

    @app.get("/api/runs/{run_id}/episodes/{which}/steps")
    async def some_steps(
        request: Request, run_id: str, which: str, first: int = 0, last: int = 100
    ) -> Response:
        found: list[Any] = steps(
            (await scene_of(request, run_id, which)).record, first, min(last, max(0, first) + MOST_STEPS)
        )
        return as_json(found)

    @app.get("/api/runs/{run_id}/episodes/{which}/frames/{number}")
    async def frame(request: Request, run_id: str, which: str, number: int) -> Response:
        path = await theatre.frame(await scene_of(request, run_id, which), number)
        return FileResponse(path, media_type="image/jpeg", headers=FOR_EVER)
