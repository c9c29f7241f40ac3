"""The web server: static files, login and NiceGUI's pages behind the guard, in the service's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from runspine.rpc.call_records import Audit
from runspine.rpc.loopback import is_loopback
from runspine.services.dashboard.assets import STATIC
from runspine.services.dashboard.edges.login.guard import Guard
from runspine.services.dashboard.edges.login.person import Login
from runspine.services.dashboard.edges.login.routes import LoginRoutes
from runspine.services.dashboard.edges.login.sessions import Sessions
from runspine.services.dashboard.settings import DashboardSettings
from runspine.settings import split_address


@dataclass(frozen=True, slots=True)
class Site:
    app: FastAPI
    login: Login
    sessions: Sessions
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


def build_site(settings: DashboardSettings, audit: Audit) -> Site:
    app = FastAPI(title="Runspine", docs_url=None, redoc_url=None, openapi_url=None)
    login = Login(settings.tokens_file)
    folder, idle, most = settings.dashboard_dir, settings.session_idle_seconds, settings.session_seconds
    sessions = Sessions(login, folder / "sessions", idle, most)
    site = Site(app, login, sessions, settings)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    LoginRoutes(login, sessions, audit, secure=site.secure).add_to(app)
    return site


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
    settings = site.settings
    guarded = Guard(site.app, site.sessions, secure=site.secure, behind_proxy=settings.behind_proxy)
    config = uvicorn.Config(
        guarded,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        # Without a proxy, anybody could claim another address.
        proxy_headers=settings.behind_proxy,
        ssl_certfile=settings.http_tls_cert,
        ssl_keyfile=settings.http_tls_key,
        timeout_graceful_shutdown=1,
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving
