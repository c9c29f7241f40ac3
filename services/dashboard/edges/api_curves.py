"""Curves for charts, as JSON. Charts fetch them directly, so that no page state holds them."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.errors import InvalidError
from runspine.services.dashboard.core.comparison import as_curves
from runspine.services.dashboard.core.run_table import MAX_SPARK_POINTS
from runspine.services.dashboard.edges.backend import Access, Backend
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.curve_cache import CurveCache, CurveQuery
from runspine.services.dashboard.edges.metric_queries import spark_points
from runspine.services.dashboard.edges.responses import json_bytes_response, json_response
from runspine.wire.v1.telemetry_pb2 import ListSeriesRequest

MAX_POINTS = 4000
MAX_SPARKS = 40


def add_curve_api(app: FastAPI, backend: Backend, cache: CurveCache) -> None:
    """Series names, curves and sparklines of runs."""

    def access(request: Request) -> Access:
        return backend.access_of(request.scope)

    @app.get("/api/runs/{run_id}/series")
    async def series(request: Request, run_id: str) -> Response:
        answer = await access(request).call("telemetry", "ListSeries", ListSeriesRequest(run_id=run_id))
        found = [{"name": one.name, "points": one.points, "last": one.last} for one in answer.series]
        return json_response(found)

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
        """Curves by name; `have` are the numbers of states that the browser has, which are left out."""
        query = CurveQuery(run_id, axis, max(2, min(points, MAX_POINTS)), first, last)
        wanted = dict(zip(name, [*have, *[0] * len(name)], strict=False))
        return json_bytes_response(await cache.curves(access(request), query, wanted))

    @app.get("/api/sparks")
    async def sparks(request: Request, run: Annotated[list[str], Query()]) -> Response:
        if len(run) > MAX_SPARKS:
            raise InvalidError(f"run: at most {MAX_SPARKS} at once")
        found = [[each, await spark_points(access(request), each, MAX_SPARK_POINTS)] for each in run]
        return json_response(found)


def add_compare_api(app: FastAPI, backend: Backend, comparisons: Comparisons) -> None:
    """Curves of groups of runs."""

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
        access = backend.access_of(request.scope)
        found = await comparisons.get(access, run, metric, axis, stat, tuple(by), each)
        return json_response(as_curves(found))
