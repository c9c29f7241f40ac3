"""What every page needs: the services, the shared table of runs, and the visitor."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request
from nicegui import ui

from runspine.services.dashboard.edges.backend import Access, Backend
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.curve_cache import CurveCache
from runspine.services.dashboard.edges.live_hub import LiveHub
from runspine.services.dashboard.edges.login.person import Login, Person
from runspine.services.dashboard.edges.login.session import session_of
from runspine.services.dashboard.edges.run_follower import RunFollower
from runspine.services.dashboard.edges.shared_query import SharedQuery
from runspine.services.dashboard.pages.elements.refresh import Refresher


@dataclass(frozen=True, slots=True)
class PageContext:
    """Shared objects of all pages, made once per process."""

    backend: Backend
    runs: RunFollower
    login: Login
    live: LiveHub
    curves: CurveCache
    shared: SharedQuery
    comparisons: Comparisons
    refresher: Refresher
    # Address of telemetry's /metrics, if it is set.
    telemetry_metrics: str | None = None

    def visitor(self, request: Request) -> Visitor:
        """The person who opens the page. The page is deleted when their session ends."""
        session, client = session_of(request.scope), ui.context.client
        client.on_delete(session.on_end(client.delete))
        access = self.backend.access_of(request.scope)
        return Visitor(session.person, access, self.backend)


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who opened a page, with access to the services in their name."""

    person: Person
    access: Access
    backend: Backend
