"""Start the dashboard: settings, gRPC clients, one subscription to all runs, the web server."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

from nicegui import ui

from runspine.service import Health, run_service
from runspine.tasks import run_together
from services.dashboard.core.runbook import RunBook
from services.dashboard.edges.answers import explain_errors
from services.dashboard.edges.api import add_api
from services.dashboard.edges.api_episodes import add_episode_api
from services.dashboard.edges.api_files import add_file_api
from services.dashboard.edges.api_live import add_live_api
from services.dashboard.edges.backend import Backend
from services.dashboard.edges.comparisons import Comparisons
from services.dashboard.edges.curve_shelf import CurveShelf
from services.dashboard.edges.following import Following
from services.dashboard.edges.live import Hub
from services.dashboard.edges.recording import Clips
from services.dashboard.edges.shared import Shared
from services.dashboard.edges.site import build_site, refuse_open_site, serve_site, storage_secret
from services.dashboard.edges.theatre import Theatre
from services.dashboard.pages import add_pages
from services.dashboard.pages.desk import Desk
from services.dashboard.pages.heart import Heart
from services.dashboard.settings import DashboardSettings


async def serve(settings: DashboardSettings, health: Health) -> None:
    async with Backend(settings) as backend:
        following = Following(backend.seen_by(settings.token.get_secret_value()), RunBook())
        health.add(lambda: following.trouble)
        site = build_site(settings)
        frames, clips = settings.dashboard_dir / "frames", settings.dashboard_dir / "clips"
        # Caches: what an earlier process drew is drawn again when somebody wants it.
        for folder in (frames, clips):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        hub = Hub(settings)
        theatre = Theatre(backend, frames)
        shelf, shared, heart = CurveShelf(following.book), Shared(), Heart()
        comparisons = Comparisons(following.book, shared)
        explain_errors(site.app)
        add_api(site.app, backend, shelf, comparisons)
        add_episode_api(site.app, theatre)
        add_file_api(site.app, backend)
        add_live_api(site.app, backend, site.doors, hub, Clips(clips))
        add_pages(
            Desk(
                backend,
                following,
                site.doors,
                hub,
                shelf,
                shared,
                comparisons,
                heart,
                settings.telemetry_metrics,
            )
        )
        ui.run_with(
            site.app,
            title="Runspine",
            dark=None,
            storage_secret=storage_secret(settings.dashboard_dir),
            reconnect_timeout=10.0,
            show_welcome_message=False,
        )
        try:
            await run_together(following.run(), serve_site(site), hub.run(), heart.run())
        finally:
            await theatre.close()


if __name__ == "__main__":
    chosen = DashboardSettings.from_environment()
    refuse_open_site(chosen)
    # NiceGUI keeps what a browser's owner has set in files of this folder.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(chosen.dashboard_dir / "storage"))
    sys.exit(run_service("dashboard", chosen, lambda health: serve(chosen, health)))
