"""What the facts of artifacts.<run_id> add up to. Never refuses: what is on the log has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runspine.wire.v1.artifacts_pb2 import (
    CORRUPT,
    ERASED,
    GOOD,
    INTEGRITY_UNSPECIFIED,
    KEPT,
    PRUNED,
    UNVERIFIED,
    Artifact,
    RunArtifacts,
)
from runspine.wire.v1.facts_pb2 import ArtifactProduced, Fact

CHECKPOINT, MODEL, VIDEO = "checkpoint", "model", "video"
# What a policy can be loaded from.
LOADABLE = (CHECKPOINT, MODEL)
# Ids of what came from outside begin so; they stand where a run's id would.
IMPORTS = "import-"


def fold(facts: Iterable[Fact], shelf: RunArtifacts | None = None) -> RunArtifacts:
    """The run's artifacts after these facts, on top of `shelf` if given (which is left as it is)."""
    after = RunArtifacts()
    if shelf is not None:
        after.CopyFrom(shelf)
    for fact in facts:
        apply(after, fact)
    return after


def apply(shelf: RunArtifacts, fact: Fact) -> None:
    """Fold one fact in place."""
    step = _STEPS.get(fact.WhichOneof("kind") or "")
    if step is not None:
        step(shelf, fact)


def describe(artifact: Artifact, said: ArtifactProduced, at: int) -> None:
    """Take over what its maker says of it; the same bytes may be said to be several things."""
    if (
        artifact.digest
        and artifact.kind
        and _rank(said.kind, at) < _rank(artifact.kind, artifact.produced_at)
    ):
        return
    artifact.digest, artifact.size, artifact.key = said.digest, said.size, said.key
    artifact.kind, artifact.name = said.kind, said.name
    artifact.attempt, artifact.step, artifact.produced_at = said.attempt, said.step, at
    artifact.meta.clear()
    for name in said.meta:
        artifact.meta[name].CopyFrom(said.meta[name])
    if artifact.integrity == INTEGRITY_UNSPECIFIED:
        artifact.integrity, artifact.keeping = UNVERIFIED, KEPT


def _rank(kind: str, at: int) -> tuple[bool, bool, int]:
    return kind == CHECKPOINT, kind == MODEL, at


def _entry(shelf: RunArtifacts, digest: str) -> Artifact:
    artifact = shelf.artifacts[digest]
    artifact.run_id, artifact.digest = shelf.run_id, digest
    if not artifact.keeping:
        artifact.keeping = KEPT
    return artifact


def _indexed(shelf: RunArtifacts, fact: Fact) -> None:
    said = fact.artifact_indexed
    artifact = _entry(shelf, said.artifact.digest)
    describe(artifact, said.artifact, said.produced_at)
    artifact.productions.append(said.artifact)
    _keep(artifact)
    artifact.integrity, artifact.flaw, artifact.checked_at = GOOD, "", fact.at


def _corrupt(shelf: RunArtifacts, fact: Fact) -> None:
    said = fact.artifact_corrupt
    artifact = _entry(shelf, said.digest)
    if said.produced_at:
        _keep(artifact)  # somebody says it is theirs, whatever was pruned before
    artifact.integrity, artifact.flaw = CORRUPT, said.flaw
    artifact.checked_at = max(fact.at, said.produced_at)


def _mended(shelf: RunArtifacts, fact: Fact) -> None:
    artifact = _entry(shelf, fact.artifact_mended.digest)
    artifact.integrity, artifact.flaw, artifact.checked_at = GOOD, "", fact.at


def _pinned(shelf: RunArtifacts, fact: Fact) -> None:
    _set_pin(shelf, fact.artifact_pinned.digest, True)


def _unpinned(shelf: RunArtifacts, fact: Fact) -> None:
    _set_pin(shelf, fact.artifact_unpinned.digest, False)


def _set_pin(shelf: RunArtifacts, digest: str, pinned: bool) -> None:
    if digest:
        _entry(shelf, digest).pinned = pinned
    else:
        shelf.pinned = pinned


def _pruned(shelf: RunArtifacts, fact: Fact) -> None:
    said = fact.artifact_pruned
    artifact = _entry(shelf, said.digest)
    artifact.keeping = PRUNED
    artifact.rule, artifact.batch = said.rule, said.batch
    artifact.pruned_at, artifact.undo_until = fact.at, said.undo_until


def _restored(shelf: RunArtifacts, fact: Fact) -> None:
    _keep(_entry(shelf, fact.artifact_restored.digest))


def _keep(artifact: Artifact) -> None:
    artifact.keeping = KEPT
    artifact.rule = artifact.batch = ""
    artifact.pruned_at = artifact.undo_until = 0


def _erased(shelf: RunArtifacts, fact: Fact) -> None:
    _entry(shelf, fact.artifact_erased.digest).keeping = ERASED


def _alias_set(shelf: RunArtifacts, fact: Fact) -> None:
    _drop_alias(shelf, fact.alias_set.alias)
    _entry(shelf, fact.alias_set.digest).aliases.append(fact.alias_set.alias)


def _alias_removed(shelf: RunArtifacts, fact: Fact) -> None:
    _drop_alias(shelf, fact.alias_removed.alias)


def _drop_alias(shelf: RunArtifacts, alias: str) -> None:
    for artifact in shelf.artifacts.values():
        if alias in artifact.aliases:
            artifact.aliases.remove(alias)


def _imported(shelf: RunArtifacts, fact: Fact) -> None:
    said = fact.checkpoint_imported
    shelf.imported.CopyFrom(said)
    shelf.imported_at = fact.at
    describe(_entry(shelf, said.digest), as_produced(shelf), fact.at)


def as_produced(shelf: RunArtifacts) -> ArtifactProduced:
    """An import in the words of a worker."""
    said = shelf.imported
    return ArtifactProduced(
        kind=said.kind or CHECKPOINT,
        name=said.name,
        digest=said.digest,
        size=said.size,
        key=said.key,
        step=said.step,
        meta=said.meta,
    )


def _activated(shelf: RunArtifacts, fact: Fact) -> None:
    said = fact.checkpoint_activated
    _drop_actor(shelf, said.actor)
    _entry(shelf, said.digest).actors.append(said.actor)


def _retired(shelf: RunArtifacts, fact: Fact) -> None:
    _drop_actor(shelf, fact.checkpoint_retired.actor)


def _drop_actor(shelf: RunArtifacts, actor: str) -> None:
    for artifact in shelf.artifacts.values():
        if actor in artifact.actors:
            artifact.actors.remove(actor)


# Every fact on artifacts.<run_id>; a test fails when one is missing here.
_STEPS: dict[str, Callable[[RunArtifacts, Fact], None]] = {
    "artifact_indexed": _indexed,
    "artifact_corrupt": _corrupt,
    "artifact_mended": _mended,
    "artifact_pinned": _pinned,
    "artifact_unpinned": _unpinned,
    "artifact_pruned": _pruned,
    "artifact_restored": _restored,
    "artifact_erased": _erased,
    "alias_set": _alias_set,
    "alias_removed": _alias_removed,
    "checkpoint_imported": _imported,
    "checkpoint_activated": _activated,
    "checkpoint_retired": _retired,
}
FOLDED = frozenset(_STEPS)
