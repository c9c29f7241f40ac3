"""What every page needs: the services, the shared book of runs, and who is looking."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from services.dashboard.edges.backend import Access, Backend
from services.dashboard.edges.comparisons import Comparisons
from services.dashboard.edges.curve_shelf import CurveShelf
from services.dashboard.edges.following import Following
from services.dashboard.edges.live import Hub
from services.dashboard.edges.login import COOKIE, Doors, Person
from services.dashboard.edges.shared import Shared
from services.dashboard.pages.heart import Heart


@dataclass(frozen=True, slots=True)
class Desk:
    backend: Backend
    following: Following
    doors: Doors
    live: Hub
    shelf: CurveShelf
    shared: Shared
    comparisons: Comparisons
    heart: Heart
    # Where telemetry tells its figures, if anywhere.
    telemetry_metrics: str | None = None

    def visitor(self, request: Request) -> Visitor:
        """Whoever asks for the page; the guard has let them in."""
        person = self.doors.person(request.cookies.get(COOKIE, "")) or Person("", "read", "")
        return Visitor(person, self.backend.seen_by(person.token), self.backend)


@dataclass(frozen=True, slots=True)
class Visitor:
    person: Person
    access: Access
    backend: Backend
