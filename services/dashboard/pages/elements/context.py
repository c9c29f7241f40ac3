"""What every page needs: the services, the shared table of runs, and the visitor."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from runspine.services.dashboard.edges.backend import Access, Backend
from runspine.services.dashboard.edges.comparisons import Comparisons
from runspine.services.dashboard.edges.curve_cache import CurveCache
from runspine.services.dashboard.edges.live_hub import LiveHub
from runspine.services.dashboard.edges.login import COOKIE, Login, Person
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
        """The person who opens the page; the guard has checked the token."""
        person = self.login.person(request.cookies.get(COOKIE, "")) or Person("", "read", "")
        return Visitor(person, self.backend.access(person.token), self.backend)


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who opened a page, with access to the services in their name."""

    person: Person
    access: Access
    backend: Backend
