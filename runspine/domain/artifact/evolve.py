"""The fold of artifacts.<run_id>. It never refuses: a fact on the log has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runspine.domain.artifact_kinds import CHECKPOINT, MODEL
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

# Prefix of the ids of imports, which stand in place of a run's id.
IMPORTS = "import-"


def fold(facts: Iterable[Fact], state: RunArtifacts | None = None) -> RunArtifacts:
    """The run's artifacts after these facts, on top of `state` if given (which is not changed)."""
    after = RunArtifacts()
    if state is not None:
        after.CopyFrom(state)
    for fact in facts:
        apply(after, fact)
    return after


def apply(state: RunArtifacts, fact: Fact) -> None:
    """Fold one fact in place."""
    step = _STEPS.get(fact.WhichOneof("kind") or "")
    if step is not None:
        step(state, fact)


def describe(artifact: Artifact, produced: ArtifactProduced, at: int) -> None:
    """Copy the description from a fact. Of several reports of the same bytes the highest rank wins."""
    if (
        artifact.digest
        and artifact.kind
        and _rank(produced.kind, at) < _rank(artifact.kind, artifact.produced_at)
    ):
        return
    artifact.digest, artifact.size, artifact.key = produced.digest, produced.size, produced.key
    artifact.kind, artifact.name = produced.kind, produced.name
    artifact.attempt, artifact.step, artifact.produced_at = produced.attempt, produced.step, at
    artifact.meta.clear()
    for name in produced.meta:
        artifact.meta[name].CopyFrom(produced.meta[name])
    if artifact.integrity == INTEGRITY_UNSPECIFIED:
        artifact.integrity, artifact.keeping = UNVERIFIED, KEPT


def _rank(kind: str, at: int) -> tuple[bool, bool, int]:
    return kind == CHECKPOINT, kind == MODEL, at


def _entry(state: RunArtifacts, digest: str) -> Artifact:
    artifact = state.artifacts[digest]
    artifact.run_id, artifact.digest = state.run_id, digest
    if not artifact.keeping:
        artifact.keeping = KEPT
    return artifact


def _indexed(state: RunArtifacts, fact: Fact) -> None:
    indexed = fact.artifact_indexed
    artifact = _entry(state, indexed.artifact.digest)
    describe(artifact, indexed.artifact, indexed.produced_at)
    artifact.productions.append(indexed.artifact)
    _keep(state, artifact)
    artifact.integrity, artifact.flaw, artifact.checked_at = GOOD, "", fact.at


def _corrupt(state: RunArtifacts, fact: Fact) -> None:
    corrupt = fact.artifact_corrupt
    artifact = _entry(state, corrupt.digest)
    if corrupt.produced_at:
        _keep(state, artifact)  # a worker reported it again after it was pruned
    artifact.integrity, artifact.flaw = CORRUPT, corrupt.flaw
    artifact.checked_at = max(fact.at, corrupt.produced_at)


def _marked_good(state: RunArtifacts, fact: Fact) -> None:
    artifact = _entry(state, fact.artifact_mended.digest)
    artifact.integrity, artifact.flaw, artifact.checked_at = GOOD, "", fact.at


def _pinned(state: RunArtifacts, fact: Fact) -> None:
    _set_pin(state, fact.artifact_pinned.digest, True)


def _unpinned(state: RunArtifacts, fact: Fact) -> None:
    _set_pin(state, fact.artifact_unpinned.digest, False)


def _set_pin(state: RunArtifacts, digest: str, pinned: bool) -> None:
    if digest:
        _entry(state, digest).pinned = pinned
    else:
        state.pinned = pinned


def _pruned(state: RunArtifacts, fact: Fact) -> None:
    pruned = fact.artifact_pruned
    artifact = _entry(state, pruned.digest)
    if artifact.keeping == KEPT:
        state.pruned_bytes += pruned.size
    state.last_pruned_at = max(state.last_pruned_at, fact.at)
    artifact.keeping = PRUNED
    artifact.rule, artifact.batch = pruned.rule, pruned.batch
    artifact.pruned_at, artifact.undo_until = fact.at, pruned.undo_until
    artifact.pruned_aliases[:] = pruned.aliases


def _restored(state: RunArtifacts, fact: Fact) -> None:
    _keep(state, _entry(state, fact.artifact_restored.digest))


def _keep(state: RunArtifacts, artifact: Artifact) -> None:
    if artifact.keeping != KEPT:
        state.pruned_bytes -= min(state.pruned_bytes, artifact.size)
    artifact.keeping = KEPT
    artifact.rule = artifact.batch = ""
    artifact.pruned_at = artifact.undo_until = 0
    del artifact.pruned_aliases[:]


def _erased(state: RunArtifacts, fact: Fact) -> None:
    _entry(state, fact.artifact_erased.digest).keeping = ERASED


def _alias_set(state: RunArtifacts, fact: Fact) -> None:
    _drop_alias(state, fact.alias_set.alias)
    _entry(state, fact.alias_set.digest).aliases.append(fact.alias_set.alias)


def _alias_removed(state: RunArtifacts, fact: Fact) -> None:
    _drop_alias(state, fact.alias_removed.alias)


def _drop_alias(state: RunArtifacts, alias: str) -> None:
    for artifact in state.artifacts.values():
        if alias in artifact.aliases:
            artifact.aliases.remove(alias)


def _imported(state: RunArtifacts, fact: Fact) -> None:
    state.imported.CopyFrom(fact.checkpoint_imported)
    state.imported_at = fact.at
    describe(_entry(state, state.imported.digest), as_produced(state), fact.at)


def as_produced(state: RunArtifacts) -> ArtifactProduced:
    """An import as the ArtifactProduced that a worker would report."""
    imported = state.imported
    return ArtifactProduced(
        kind=imported.kind or CHECKPOINT,
        name=imported.name,
        digest=imported.digest,
        size=imported.size,
        key=imported.key,
        step=imported.step,
        meta=imported.meta,
    )


def _activated(state: RunArtifacts, fact: Fact) -> None:
    activated = fact.checkpoint_activated
    _drop_actor(state, activated.actor)
    _entry(state, activated.digest).actors.append(activated.actor)


def _retired(state: RunArtifacts, fact: Fact) -> None:
    _drop_actor(state, fact.checkpoint_retired.actor)


def _drop_actor(state: RunArtifacts, actor: str) -> None:
    for artifact in state.artifacts.values():
        if actor in artifact.actors:
            artifact.actors.remove(actor)


# Every fact on artifacts.<run_id>; a test fails when one is missing here.
_STEPS: dict[str, Callable[[RunArtifacts, Fact], None]] = {
    "artifact_indexed": _indexed,
    "artifact_corrupt": _corrupt,
    "artifact_mended": _marked_good,
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
