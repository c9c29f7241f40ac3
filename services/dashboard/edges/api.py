"""Figures for charts, as JSON. Fetched by the charts themselves, so that no page's state holds them."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.errors import Invalid
from runspine.wire.v1.telemetry_pb2 import ListSeriesRequest
from services.dashboard.core.comparing import as_curves
from services.dashboard.edges.answers import as_json, json_response
from services.dashboard.edges.backend import Access, Backend
from services.dashboard.edges.comparisons import Comparisons
from services.dashboard.edges.curve_shelf import CurveShelf, Question
from services.dashboard.edges.figures import spark
from services.dashboard.edges.login import COOKIE

MOST_POINTS = 4000
MOST_SPARKS = 40


def add_api(app: FastAPI, backend: Backend, shelf: CurveShelf, comparisons: Comparisons) -> None:
    def access(request: Request) -> Access:
        return backend.seen_by(request.cookies.get(COOKIE, ""))

    @app.get("/api/runs/{run_id}/series")
    async def series(request: Request, run_id: str) -> Response:
        answer = await access(request).ask("telemetry", "ListSeries", ListSeriesRequest(run_id=run_id))
        return as_json([{"name": one.name, "points": one.points, "last": one.last} for one in answer.series])

    @app.get("/api/runs/{run_id}/curves")
    async def curves(
        request: Request,
        run_id: str,
        name: Annotated[list[str], Query()],
        have: Annotated[list[int], Query()] = [],  # noqa: B006 - FastAPI copies it
        axis: str = "step",
        first: float | None = None,
        last: float | None = None,
        points: int = 1000,
    ) -> Response:
        """Curves by name; those of which the browser has the newest state, by number, are left out."""
        question = Question(run_id, axis, max(2, min(points, MOST_POINTS)), first, last)
        wanted = dict(zip(name, [*have, *[0] * len(name)], strict=False))
        return json_response(await shelf.curves(access(request), question, wanted))

    @app.get("/api/sparks")
    async def sparks(request: Request, run: Annotated[list[str], Query()]) -> Response:
        if len(run) > MOST_SPARKS:
            raise Invalid(f"run: at most {MOST_SPARKS} at once")
        return as_json([[each, await spark(access(request), each, MOST_SPARKS)] for each in run])

    @app.get("/api/compare")
    async def compare(
        request: Request,
        run: Annotated[list[str], Query()],
        metric: str,
        by: Annotated[list[str], Query()] = [],  # noqa: B006 - FastAPI copies it
        axis: str = "step",
        stat: str = "iqm",
        each: bool = False,
    ) -> Response:
        found = await comparisons.get(access(request), run, metric, axis, stat, tuple(by), each)
        return as_json(as_curves(found))
