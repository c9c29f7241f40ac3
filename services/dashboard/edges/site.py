"""The web server: static files, login and NiceGUI's pages, in the service's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles

from runspine.rpc.loopback import is_loopback
from runspine.services.dashboard.assets import STATIC
from runspine.services.dashboard.edges.login import COOKIE, COOKIE_SECONDS, Login
from runspine.services.dashboard.edges.login_page import login_page
from runspine.services.dashboard.settings import DashboardSettings
from runspine.settings import split_address

# NiceGUI's components compile templates in the browser, hence unsafe-eval.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
        "img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self' ws: wss:; "
        "frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Site:
    app: FastAPI
    login: Login
    settings: DashboardSettings

    @property
    def secure(self) -> bool:
        return self.settings.http_tls_cert is not None or self.settings.behind_proxy


def refuse_open_site(settings: DashboardSettings) -> None:
    """Exit when the address is not loopback and tokens or TLS are missing."""
    host, _ = split_address(settings.http_address)
    if is_loopback(host):
        return
    if settings.tokens_file is None:
        raise SystemExit(
            f"RUNSPINE_HTTP_ADDRESS {settings.http_address} is reachable from outside: "
            "set RUNSPINE_TOKENS_FILE, or serve on 127.0.0.1"
        )
    if (
        settings.http_tls_cert is None
        and not settings.behind_proxy
        and not is_loopback(settings.published_on)
    ):
        raise SystemExit(
            f"RUNSPINE_HTTP_ADDRESS {settings.http_address} is reachable from outside: set "
            "RUNSPINE_HTTP_TLS_CERT and RUNSPINE_HTTP_TLS_KEY, or RUNSPINE_BEHIND_PROXY=true "
            "when a proxy in front terminates TLS"
        )


def build_site(settings: DashboardSettings) -> Site:
    app = FastAPI(title="Runspine", docs_url=None, redoc_url=None, openapi_url=None)
    site = Site(app, Login(settings.tokens_file), settings)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _add_login(site)
    _add_guard(site)
    return site


def _add_login(site: Site) -> None:
    @site.app.get("/login", response_class=HTMLResponse)
    async def show(to: str = "/") -> str:
        return login_page(_inside(to))

    @site.app.post("/login")
    async def enter(token: str = Form(""), to: str = Form("/")) -> Response:
        if site.login.person(token.strip()) is None:
            return HTMLResponse(login_page(_inside(to), wrong=True), status_code=403)
        answer = RedirectResponse(_inside(to), status_code=303)
        answer.set_cookie(
            COOKIE,
            token.strip(),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=site.secure,
        )
        return answer

    @site.app.post("/logout")
    async def leave() -> Response:
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(COOKIE)
        return answer


def _add_guard(site: Site) -> None:
    """Without a valid token nothing but the login page and static files is served."""

    @site.app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        path = request.url.path
        files = request.method == "GET" and path.startswith(("/static/", "/_nicegui/"))
        public = path == "/login" or files
        if not public and site.login.person(request.cookies.get(COOKIE, "")) is None:
            if request.method != "GET":
                return Response("log in first", status_code=401)
            to = f"{path}?{request.url.query}" if request.url.query else path
            return RedirectResponse(f"/login?{urlencode({'to': to})}", status_code=303)
        answer: Response = await call_next(request)
        answer.headers.update(SECURITY_HEADERS)
        return answer


def _inside(to: str) -> str:
    """The path if it is one of this site, else the start page."""
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"


def storage_secret(folder: Path) -> str:
    """The key that signs storage cookies; kept on disk, so that presets survive a restart."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "secret"
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return path.read_text()


class Server(uvicorn.Server):
    """A server that leaves signals to the service shell."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_site(site: Site) -> None:
    """Serve until cancelled, then shut down gracefully within a second."""
    host, port = split_address(site.settings.http_address)
    config = uvicorn.Config(
        site.app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        ssl_certfile=site.settings.http_tls_cert,
        ssl_keyfile=site.settings.http_tls_key,
        timeout_graceful_shutdown=1,
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving
