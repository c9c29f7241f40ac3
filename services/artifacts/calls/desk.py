"""What every call works with, and how references in requests become artifacts."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.artifact_blobs import ArtifactBlobs
from runspine.errors import Violation
from runspine.grpc_errors import Ambiguous, InvalidInput, NotFound
from runspine.wire.v1.artifacts_pb2 import Artifact
from services.artifacts.core.catalog import Catalog
from services.artifacts.core.reference import Several, Unknown, find_run, resolve
from services.artifacts.core.standing import Standings
from services.artifacts.edges.clerk import Clerk
from services.artifacts.edges.imports import Imports
from services.artifacts.edges.inventory import Inventory
from services.artifacts.edges.janitor import Janitor
from services.artifacts.edges.scrubber import Scrubber
from services.artifacts.edges.verifying import Verifying

MAX_PAGE = 5_000


@dataclass(slots=True)
class Desk:
    catalog: Catalog
    blobs: ArtifactBlobs
    clerk: Clerk
    verifying: Verifying
    janitor: Janitor
    imports: Imports
    inventory: Inventory
    scrubber: Scrubber
    _standings: Standings | None = None

    def standings(self) -> Standings:
        """Worked out anew when something has changed since."""
        if self._standings is None or self._standings.version != self.catalog.version:
            self._standings = Standings(self.catalog)
        return self._standings

    def find(self, reference: str, standings: Standings | None = None) -> Artifact:
        """The artifact that is meant. Raises NotFound, Ambiguous."""
        try:
            return resolve(self.catalog, standings or self.standings(), reference)
        except Unknown as error:
            raise NotFound(str(error)) from error
        except Several as error:
            raise Ambiguous(str(error)) from error

    def run(self, text: str) -> str:
        """The id of a run or import. Raises NotFound, Ambiguous."""
        try:
            found = find_run(self.catalog, text)
        except Several as error:
            raise Ambiguous(str(error)) from error
        if found is None:
            raise NotFound(f"no run is called {text!r}")
        return found

    def is_run(self, text: str) -> bool:
        """Whether the text names a run rather than an artifact."""
        if ":" in text or not text or text in self.catalog.aliases:
            return False
        try:
            return find_run(self.catalog, text) is not None
        except Several as error:
            raise Ambiguous(str(error)) from error


@dataclass(frozen=True, slots=True)
class Flaw:
    field: str
    message: str


def invalid(*violations: Violation) -> InvalidInput:
    return InvalidInput([Flaw(v.field, v.description) for v in violations])


def page(token: str, size: int, total: int, default: int) -> tuple[int, int, str]:
    """Where a page begins and ends, and the token of the next."""
    if token and not token.isdecimal():
        raise invalid(Violation("page_token", f"{token[:40]!r} is not one that was given out"))
    start = int(token or 0)
    end = start + (min(size, MAX_PAGE) or default)
    return start, end, str(end) if end < total else ""
