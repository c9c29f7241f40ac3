"""What is shown for an address that leads nowhere."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response
from nicegui import Client, app
from nicegui.page import page

from services.dashboard.pages.desk import Desk
from services.dashboard.pages.frame import frame
from services.dashboard.pages.notices import problem


def add_missing_page(desk: Desk) -> None:
    @app.exception_handler(404)
    async def missing(request: Request, _: Exception) -> Response:
        with Client(page(""), request=request) as client, frame(desk, desk.visitor(request), "Not found", ""):
            problem("There is no such page", f"Nothing is at {request.url.path}.", "All runs", "/")
        return client.build_response(request, 404)
