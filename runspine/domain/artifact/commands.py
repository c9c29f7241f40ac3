"""Commands on a run's artifacts. Time, ids and the caller are fields, so that deciding is pure."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.wire.v1.facts_pb2 import ArtifactIndexed, CheckpointImported


@dataclass(frozen=True, slots=True)
class Index:
    """Objects were read and have the size and digest that their worker reported."""

    at: int
    read: tuple[ArtifactIndexed, ...]


@dataclass(frozen=True, slots=True)
class MarkCorrupt:
    """An object was read and has other bytes than its digest, or is gone from S3."""

    at: int
    digest: str
    problem: str
    found_by: str
    # When the worker reported it, if it was not checked since.
    produced_at: int = 0


@dataclass(frozen=True, slots=True)
class MarkGood:
    """An object that was marked corrupt was read and is whole."""

    at: int
    digest: str
    found_by: str


@dataclass(frozen=True, slots=True)
class Pin:
    """Protect an artifact from pruning; an empty digest means the whole run."""

    at: int
    digest: str = ""
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unpin:
    """Remove a pin; an empty digest means that of the whole run."""

    at: int
    digest: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class PruneTarget:
    """One artifact to be pruned, with the rule and scope that require it."""

    digest: str
    rule: str
    scope: str
    size: int = 0
    kind: str = ""
    name: str = ""
    # Its aliases do not hold it: they are removed with it, and an undo sets them again.
    with_aliases: bool = False


@dataclass(frozen=True, slots=True)
class Prune:
    """Prune artifacts of one run in one batch; those that were pinned meanwhile are skipped."""

    at: int
    targets: tuple[PruneTarget, ...]
    batch: str
    undo_until: int
    by: str = ""
    # Of the janitor; 0 when a person prunes.
    term: int = 0


@dataclass(frozen=True, slots=True)
class Restore:
    """Undo prunes; aliases that were removed with them are set again."""

    at: int
    digests: frozenset[str]
    by: str = ""
    # Aliases that name something else by now.
    taken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Erase:
    """Record that the bytes of a pruned artifact are removed from S3."""

    at: int
    digest: str


@dataclass(frozen=True, slots=True)
class SetAlias:
    """Point an alias to a checkpoint."""

    at: int
    alias: str
    digest: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class RemoveAlias:
    """Remove an alias."""

    at: int
    alias: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    """Register an artifact that no run produced."""

    at: int
    imported: CheckpointImported


@dataclass(frozen=True, slots=True)
class Activate:
    """Let an actor play with a checkpoint in an env."""

    at: int
    actor: str
    digest: str
    by: str = ""
    env: str = ""


@dataclass(frozen=True, slots=True)
class Retire:
    """End the activation of an actor's checkpoint in this run; `env` as it was activated."""

    at: int
    actor: str
    env: str = ""


Command = (
    Index
    | MarkCorrupt
    | MarkGood
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
