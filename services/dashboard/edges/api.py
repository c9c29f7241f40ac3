"""Figures for charts, as JSON. Fetched by the charts themselves, so that no page's state holds them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from runspine.errors import Invalid
from runspine.wire.v1.telemetry_pb2 import ListSeriesRequest, QueryMetricsRequest, Series
from services.dashboard.core.comparing import as_curves
from services.dashboard.edges.answers import as_json
from services.dashboard.edges.backend import Access, Backend
from services.dashboard.edges.figures import axis_of, comparison, spark
from services.dashboard.edges.login import COOKIE

MOST_POINTS = 4000
MOST_SPARKS = 40


def add_api(app: FastAPI, backend: Backend) -> None:
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
        axis: str = "step",
        first: float | None = None,
        last: float | None = None,
        points: int = 1000,
    ) -> Response:
        message = QueryMetricsRequest(
            run_id=run_id, names=name, max_points=max(2, min(points, MOST_POINTS)),
            axis=axis_of(axis),
        )  # fmt: skip
        if first is not None:
            setattr(message, "from", first)
        if last is not None:
            message.to = last
        answer = await access(request).ask("telemetry", "QueryMetrics", message)
        return as_json([_curve(one) for one in answer.series])

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
        found = await comparison(access(request), run, metric, axis, stat, by, each)
        return as_json(as_curves(found))


def _curve(series: Series) -> dict[str, Any]:
    return {
        "name": series.name,
        "exact": series.exact,
        "points": series.points,
        "x": list(series.x),
        "y": list(series.y),
        "low": list(series.low),
        "high": list(series.high),
    }
