"""Start the dashboard: settings, gRPC clients, one subscription to all runs, the web server."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

from nicegui import ui

from runspine.audit.trail import AuditTrail
from runspine.service.process import Health, run_service
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.api.run_views import SharedViews
from runspine.services.dashboard.edges.api.site import add_client, build_api
from runspine.services.dashboard.edges.api_code import add_code_api
from runspine.services.dashboard.edges.api_curves import add_compare_api, add_curve_api
from runspine.services.dashboard.edges.api_episodes import add_episode_api
from runspine.services.dashboard.edges.api_files import add_file_api
from runspine.services.dashboard.edges.api_live import add_live_api
from runspine.services.dashboard.edges.audit_log import write_audit
from runspine.services.dashboard.edges.backend import Backend
from runspine.services.dashboard.edges.clip_recording import RecordedClips
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.curve_cache import CurveCache
from runspine.services.dashboard.edges.episode_frames import EpisodeFrames
from runspine.services.dashboard.edges.live_hub import LiveHub
from runspine.services.dashboard.edges.responses import add_error_handler
from runspine.services.dashboard.edges.run_follower import RunFollower
from runspine.services.dashboard.edges.shared_query import SharedQuery
from runspine.services.dashboard.edges.site import (
    Site,
    build_site,
    refuse_open_site,
    serve_site,
    storage_secret,
)
from runspine.services.dashboard.pages import add_pages
from runspine.services.dashboard.pages.elements.context import PageContext
from runspine.services.dashboard.pages.elements.refresh import Refresher
from runspine.services.dashboard.settings import DashboardSettings
from runspine.settings import split_address
from runspine.tasks import run_together


async def serve(settings: DashboardSettings, health: Health) -> None:
    """Wire the parts together and run them until cancelled."""
    async with Backend(settings) as backend:
        runs = RunFollower(backend.access(settings.token.get_secret_value()), RunTable())
        health.add(lambda: runs.trouble)
        audit = AuditTrail("dashboard")
        site = build_site(settings, audit)
        frames, clips = settings.dashboard_dir / "frames", settings.dashboard_dir / "clips"
        # Caches of an earlier process; frames and clips are made again on demand.
        for folder in (frames, clips):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        hub = LiveHub(settings)
        episode_frames = EpisodeFrames(backend, frames)
        curves, shared, refresher = CurveCache(runs.table), SharedQuery(), Refresher()
        comparisons, views = Comparisons(runs.table, shared), SharedViews(runs.table)
        add_error_handler(site.app)
        add_curve_api(site.app, backend, curves)
        add_compare_api(site.app, backend, comparisons)
        add_episode_api(site.app, episode_frames)
        add_file_api(site.app, backend)
        add_code_api(site.app, backend)
        add_live_api(site.app, backend, hub, RecordedClips(clips))
        site.app.mount("/api/v1", build_api(backend, runs, views, curves, shared, comparisons))
        add_client(site.app)
        add_pages(
            PageContext(
                backend,
                runs,
                site.login,
                hub,
                curves,
                shared,
                comparisons,
                refresher,
                settings.telemetry_metrics,
            )
        )
        mount_pages(site)
        try:
            await run_together(
                runs.run(),
                serve_site(site),
                hub.run(),
                refresher.run(),
                views.keep_warm(),
                site.sessions.run(),
                write_audit(audit, settings),
            )
        finally:
            await episode_frames.close()


def mount_pages(site: Site) -> None:
    """Mount NiceGUI's pages on the web server."""
    ui.run_with(
        site.app,
        title="Runspine",
        dark=None,
        storage_secret=storage_secret(site.settings.dashboard_dir),
        # The cookie of preferences, by port as that of the session: cookies are sent to all ports of a host.
        session_middleware_kwargs={
            "session_cookie": f"runspine_browser_{split_address(site.settings.http_address)[1]}",
            "same_site": "strict",
            "https_only": site.secure,
        },
        reconnect_timeout=10.0,
        show_welcome_message=False,
    )


if __name__ == "__main__":
    loaded = DashboardSettings.from_environment()
    refuse_open_site(loaded)
    # NiceGUI stores the preferences of users in files of this folder.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(loaded.dashboard_dir / "storage"))
    sys.exit(run_service("dashboard", loaded, lambda health: serve(loaded, health)))
