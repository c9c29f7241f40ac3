"""The client's API under /api/v1, and the client itself under /app."""

from __future__ import annotations

import gzip
import hashlib
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from runspine import __version__
from runspine.clock import now_micros
from runspine.services.dashboard.assets import STATIC
from runspine.services.dashboard.edges.api import shapes
from runspine.services.dashboard.edges.api.actions import ActionsApi
from runspine.services.dashboard.edges.api.comparing import CompareApi
from runspine.services.dashboard.edges.api.events import MAX_WATCHED, ChangeEvents
from runspine.services.dashboard.edges.api.records import RecordsApi
from runspine.services.dashboard.edges.api.run_detail import RunApi
from runspine.services.dashboard.edges.api.run_views import SharedViews
from runspine.services.dashboard.edges.api.runs import RunsApi
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.curve_cache import CurveCache
from runspine.services.dashboard.edges.login.session import session_of
from runspine.services.dashboard.edges.responses import add_error_handler, json_response
from runspine.services.dashboard.edges.run_follower import RunFollower
from runspine.services.dashboard.edges.shared_query import SharedQuery

CLIENT = STATIC / "app"
ASSET_TYPES = {".js": "text/javascript", ".css": "text/css"}
INTRODUCTION = (
    "What the page in the browser asks for. Times are milliseconds since 1970. "
    "Every answer that is no success is a Problem. A login at /login gives the session's cookie."
)
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Numbers of the newest changes"}
}


def build_api(
    backend: Backend,
    runs: RunFollower,
    views: SharedViews,
    curves: CurveCache,
    shared: SharedQuery,
    comparisons: Comparisons,
) -> FastAPI:
    """The application to mount at /api/v1."""
    problem = {"4XX": {"model": shapes.Problem}, "5XX": {"model": shapes.Problem}}
    app = FastAPI(
        title="Runspine page", version="1", description=INTRODUCTION, docs_url=None, redoc_url=None,
        openapi_url=None, responses=problem,  # type: ignore[arg-type]
    )  # fmt: skip
    epoch = f"{now_micros():x}"
    app.add_middleware(GZipMiddleware, minimum_size=800, compresslevel=5)
    add_error_handler(app)
    _add_problems(app)
    RunsApi(backend, runs.table, views, shared, epoch).add_to(app)
    ActionsApi(backend).add_to(app)
    RunApi(backend, runs.table, curves, shared).add_to(app)
    RecordsApi(backend).add_to(app)
    CompareApi(backend, comparisons).add_to(app)
    _add_session(app, backend)
    events = ChangeEvents(runs, epoch)

    @app.get("/events", response_class=StreamingResponse, responses=EVENTS)
    async def changes(run: Annotated[list[str], Query(max_length=MAX_WATCHED)] = []) -> Response:  # noqa: B006
        """Server-sent events: the newest change of the list, and of the runs that are named."""
        # Compression would hold events back.
        headers = {"Cache-Control": "no-store", "Content-Encoding": "identity"}
        return StreamingResponse(events.stream(run), media_type="text/event-stream", headers=headers)

    return app


def _add_session(app: FastAPI, backend: Backend) -> None:
    @app.get("/session", response_model=shapes.SessionShape)
    async def session(request: Request) -> Response:
        """Who is logged in."""
        person = session_of(request.scope).person
        return json_response(
            shapes.SessionShape(
                person.name, person.scope, person.may_run, not backend.has_tokens_file, __version__
            )
        )


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "request"
        return json_response({"error": f"{where}: {first['msg']}"}, 400)

    @app.exception_handler(HTTPException)
    async def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return json_response({"error": str(error.detail)}, error.status_code)


class Asset:
    """A built file of the client, kept in memory as it is sent."""

    def __init__(self, name: str) -> None:
        path = CLIENT / name
        self.plain = path.read_bytes()
        self.packed = gzip.compress(self.plain, 9, mtime=0)
        self.kind = ASSET_TYPES[path.suffix]
        self.digest = hashlib.sha256(self.plain).hexdigest()[:16]

    def response(self, request: Request) -> Response:
        # The address holds the digest: what it names never changes.
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                self.packed, media_type=self.kind, headers={**headers, "Content-Encoding": "gzip"}
            )
        return Response(self.plain, media_type=self.kind, headers=headers)


def add_client(app: FastAPI) -> None:
    """Serve the client at /app; every address below it is the same page."""
    assets = {name: Asset(name) for name in ("app.js", "app.css")}
    page = (CLIENT / "index.html").read_text()
    for name, asset in assets.items():
        page = page.replace(f"/app/assets/{name}", f"/app/assets/{asset.digest}/{name}")

    @app.get("/app/assets/{digest}/{name}")
    async def serve_asset(request: Request, digest: str, name: str) -> Response:
        found: Any = assets.get(name)
        if found is None or found.digest != digest:
            return json_response({"error": "this page is older than the service: load it again"}, 404)
        return found.response(request)  # type: ignore[no-any-return]

    @app.get("/app")
    @app.get("/app/{rest:path}")
    async def client(rest: str = "") -> Response:
        return Response(page, media_type="text/html", headers={"Cache-Control": "no-cache"})
