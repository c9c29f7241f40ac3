"""What the calls of ArtifactService share, and the resolution of references in requests."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.errors import Violation
from runspine.rpc.errors import AmbiguousError, InvalidInputError, NotFoundError
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking
from runspine.services.artifacts.core.reference import (
    SeveralMatchesError,
    UnknownReferenceError,
    find_run,
    resolve,
)
from runspine.services.artifacts.edges.code_store import CodeStore
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.imports import Imports
from runspine.services.artifacts.edges.inventory import Inventory
from runspine.services.artifacts.edges.prune_undo import PruneUndo
from runspine.services.artifacts.edges.pruner import Pruner
from runspine.services.artifacts.edges.scrubber import ObjectScrubber
from runspine.services.artifacts.edges.verification import ObjectVerification
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.wire.v1.artifacts_pb2 import Artifact

MAX_PAGE = 5_000


@dataclass(slots=True)
class CallContext:
    """The parts of the service that calls use."""

    catalog: ArtifactCatalog
    blobs: ArtifactBlobs
    handler: CommandHandler
    verification: ObjectVerification
    pruner: Pruner
    undo: PruneUndo
    imports: Imports
    inventory: Inventory
    scrubber: ObjectScrubber
    code: CodeStore
    _ranking: Ranking | None = None

    def ranking(self) -> Ranking:
        """The ranking of the catalog's present version, cached."""
        if self._ranking is None or self._ranking.version != self.catalog.version:
            self._ranking = Ranking(self.catalog)
        return self._ranking

    def find(self, reference: str, ranking: Ranking | None = None) -> Artifact:
        """The artifact that a reference names. Raises NotFoundError, AmbiguousError."""
        try:
            return resolve(self.catalog, ranking or self.ranking(), reference)
        except UnknownReferenceError as error:
            raise NotFoundError(str(error)) from error
        except SeveralMatchesError as error:
            raise AmbiguousError(str(error)) from error

    def run(self, text: str) -> str:
        """The id of a run or import. Raises NotFoundError, AmbiguousError."""
        try:
            found = find_run(self.catalog, text)
        except SeveralMatchesError as error:
            raise AmbiguousError(str(error)) from error
        if found is None:
            raise NotFoundError(f"no run is called {text!r}")
        return found

    def is_run(self, text: str) -> bool:
        """Whether the text names a run rather than an artifact."""
        if ":" in text or not text or text in self.catalog.aliases:
            return False
        try:
            return find_run(self.catalog, text) is not None
        except SeveralMatchesError as error:
            raise AmbiguousError(str(error)) from error


def invalid(*violations: Violation) -> InvalidInputError:
    return InvalidInputError(violations)


def page(token: str, size: int, total: int, default: int) -> tuple[int, int, str]:
    """Start and end of a page, and the token of the next."""
    if token and not token.isdecimal():
        raise invalid(Violation("page_token", f"{token[:40]!r} is not a token of a previous page"))
    start = int(token or 0)
    end = start + (min(size, MAX_PAGE) or default)
    return start, end, str(end) if end < total else ""
