"""The page for unknown addresses."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response
from nicegui import Client, app
from nicegui.page import page

from runspine.services.dashboard.pages.elements.context import PageContext
from runspine.services.dashboard.pages.elements.frame import frame
from runspine.services.dashboard.pages.elements.notices import problem


def add_missing_page(context: PageContext) -> None:
    @app.exception_handler(404)
    async def missing(request: Request, _: Exception) -> Response:
        with (
            Client(page(""), request=request) as client,
            frame(context, context.visitor(request), "Not found", ""),
        ):
            problem("Page not found", f"There is no page at {request.url.path}.", "All runs", "/")
        return client.build_response(request, 404)
