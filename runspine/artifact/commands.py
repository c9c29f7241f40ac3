"""What may be asked of a run's artifacts. Time, ids and people are fields of the command."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.wire.v1.facts_pb2 import ArtifactIndexed, CheckpointImported


@dataclass(frozen=True, slots=True)
class Index:
    """These objects were read, and are what their maker said."""

    at: int
    read: tuple[ArtifactIndexed, ...]


@dataclass(frozen=True, slots=True)
class Condemn:
    """Its object was read and is not what it should be, or it is gone."""

    at: int
    digest: str
    flaw: str
    found_by: str
    # When its maker said that it is stored, if this is the first look since.
    produced_at: int = 0


@dataclass(frozen=True, slots=True)
class Mend:
    """Its object was read and is whole, whatever was said before."""

    at: int
    digest: str
    found_by: str


@dataclass(frozen=True, slots=True)
class Pin:
    """An empty digest means the run as a whole."""

    at: int
    digest: str = ""
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unpin:
    at: int
    digest: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Doomed:
    """One artifact that a rule no longer keeps."""

    digest: str
    rule: str
    scope: str
    size: int = 0
    kind: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Prune:
    """All that goes of one run in one batch; what is held meanwhile is left out."""

    at: int
    doomed: tuple[Doomed, ...]
    batch: str
    undo_until: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class Restore:
    """Take prunes back."""

    at: int
    digests: frozenset[str]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Erase:
    """Its bytes were removed from S3."""

    at: int
    digest: str


@dataclass(frozen=True, slots=True)
class SetAlias:
    at: int
    alias: str
    digest: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class RemoveAlias:
    at: int
    alias: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    at: int
    imported: CheckpointImported


@dataclass(frozen=True, slots=True)
class Activate:
    at: int
    actor: str
    digest: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Retire:
    """The actor plays with something else now."""

    at: int
    actor: str


Command = (
    Index
    | Condemn
    | Mend
    | Pin
    | Unpin
    | Prune
    | Restore
    | Erase
    | SetAlias
    | RemoveAlias
    | Import
    | Activate
    | Retire
)
