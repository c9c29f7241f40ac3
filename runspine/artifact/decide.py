"""The rules of keeping. `decide` may refuse but changes nothing."""

from __future__ import annotations

from runspine.artifact.commands import (
    Activate,
    Command,
    Condemn,
    Doomed,
    Erase,
    Import,
    Index,
    Mend,
    Pin,
    Prune,
    RemoveAlias,
    Restore,
    Retire,
    SetAlias,
    Unpin,
)
from runspine.run import Refused
from runspine.wire.v1.artifacts_pb2 import CORRUPT, ERASED, GOOD, KEPT, PRUNED, Artifact, RunArtifacts
from runspine.wire.v1.facts_pb2 import (
    AliasRemoved,
    AliasSet,
    ArtifactCorrupt,
    ArtifactErased,
    ArtifactMended,
    ArtifactPinned,
    ArtifactPruned,
    ArtifactRestored,
    ArtifactUnpinned,
    CheckpointActivated,
    CheckpointRetired,
    Fact,
)


def decide(shelf: RunArtifacts, command: Command) -> list[Fact]:
    """The facts that follow from a command; none when it changes nothing."""
    match command:
        case Index():
            return _index(shelf, command)
        case Condemn():
            return _condemn(shelf, command)
        case Mend():
            return _mend(shelf, command)
        case Pin() | Unpin():
            return _pin(shelf, command)
        case Prune():
            return [_pruned(command, doomed) for doomed in command.doomed if _may_go(shelf, doomed)]
        case Restore():
            return _restore(shelf, command)
        case Erase():
            return _erase(shelf, command)
        case SetAlias() | RemoveAlias():
            return _alias(shelf, command)
        case Import(at=at, imported=imported):
            if shelf.imported == imported:
                return []
            return [Fact(at=at, checkpoint_imported=imported)]
        case Activate() | Retire():
            return _actor(shelf, command)


def obstacle(artifact: Artifact) -> str:
    """Why nobody may load it; empty when it is whole and kept."""
    what = f"{artifact.name or 'artifact'} ({artifact.digest[:12]})"
    if artifact.keeping == ERASED:
        return f"{what} was pruned by {artifact.rule} and is gone for good"
    if artifact.keeping == PRUNED:
        return (
            f"{what} was pruned by {artifact.rule}; `runspine prune --undo {artifact.batch}` brings it back"
        )
    if artifact.integrity == CORRUPT:
        return f"{what} is corrupt: {artifact.flaw}"
    if artifact.integrity != GOOD:
        return f"{what} has not been verified yet; try again in a moment"
    return ""


def holds(shelf: RunArtifacts, artifact: Artifact) -> str:
    """What keeps it from being pruned; empty when nothing does."""
    if artifact.pinned:
        return "pinned"
    if shelf.pinned:
        return "its run is pinned"
    if artifact.aliases:
        return f"alias {artifact.aliases[0]}"
    if artifact.actors:
        return f"actor {artifact.actors[0]}"
    return ""


def _index(shelf: RunArtifacts, command: Index) -> list[Fact]:
    facts: list[Fact] = []
    for read in command.read:
        said = read.artifact
        artifact = shelf.artifacts.get(said.digest)
        # Compared as bytes, because NaN is not equal to itself.
        known = [] if artifact is None else [_bytes(production) for production in artifact.productions]
        known += [_bytes(fact.artifact_indexed.artifact) for fact in facts]
        if _bytes(said) in known:
            facts += _mend(shelf, Mend(command.at, said.digest, "index"))
        else:
            facts.append(Fact(at=command.at, artifact_indexed=read))
    return facts


def _bytes(message: object) -> bytes:
    return message.SerializeToString(deterministic=True)  # type: ignore[attr-defined, no-any-return]


def _condemn(shelf: RunArtifacts, command: Condemn) -> list[Fact]:
    artifact = shelf.artifacts.get(command.digest)
    if artifact is not None:
        claimed = command.produced_at > max(artifact.checked_at, artifact.pruned_at)
        if not claimed and (artifact.keeping != KEPT or artifact.integrity == CORRUPT):
            return []
    said = ArtifactCorrupt(
        digest=command.digest,
        flaw=command.flaw,
        found_by=command.found_by,
        produced_at=command.produced_at,
    )
    return [Fact(at=command.at, artifact_corrupt=said)]


def _mend(shelf: RunArtifacts, command: Mend) -> list[Fact]:
    artifact = shelf.artifacts.get(command.digest)
    if artifact is None or artifact.integrity != CORRUPT or not artifact.productions:
        return []
    return [
        Fact(at=command.at, artifact_mended=ArtifactMended(digest=command.digest, found_by=command.found_by))
    ]


def _pin(shelf: RunArtifacts, command: Pin | Unpin) -> list[Fact]:
    wanted = isinstance(command, Pin)
    if command.digest:
        artifact = _kept(shelf, command.digest) if wanted else _known(shelf, command.digest)
        pinned = artifact.pinned
    else:
        pinned = shelf.pinned
    if pinned == wanted:
        return []
    if isinstance(command, Pin):
        said = ArtifactPinned(digest=command.digest, pinned_by=command.by, reason=command.reason)
        return [Fact(at=command.at, artifact_pinned=said)]
    return [
        Fact(at=command.at, artifact_unpinned=ArtifactUnpinned(digest=command.digest, unpinned_by=command.by))
    ]


def _may_go(shelf: RunArtifacts, doomed: Doomed) -> bool:
    """Not what was pinned since the plan was made, nor what went already."""
    artifact = shelf.artifacts.get(doomed.digest)
    return artifact is not None and artifact.keeping == KEPT and not holds(shelf, artifact)


def _pruned(command: Prune, doomed: Doomed) -> Fact:
    said = ArtifactPruned(
        digest=doomed.digest,
        size=doomed.size,
        kind=doomed.kind,
        name=doomed.name,
        rule=doomed.rule,
        scope=doomed.scope,
        batch=command.batch,
        pruned_by=command.by,
        undo_until=command.undo_until,
    )
    return Fact(at=command.at, artifact_pruned=said)


def _restore(shelf: RunArtifacts, command: Restore) -> list[Fact]:
    found = [
        artifact
        for artifact in shelf.artifacts.values()
        if artifact.keeping == PRUNED and artifact.digest in command.digests
    ]
    return [
        Fact(
            at=command.at,
            artifact_restored=ArtifactRestored(
                digest=artifact.digest, batch=artifact.batch, restored_by=command.by
            ),
        )
        for artifact in sorted(found, key=lambda artifact: artifact.digest)
    ]


def _erase(shelf: RunArtifacts, command: Erase) -> list[Fact]:
    artifact = shelf.artifacts.get(command.digest)
    if artifact is None or artifact.keeping != PRUNED:
        return []
    if artifact.undo_until > command.at:
        raise Refused(f"{artifact.name} can still be had back")
    said = ArtifactErased(digest=artifact.digest, size=artifact.size)
    return [Fact(at=command.at, artifact_erased=said)]


def _alias(shelf: RunArtifacts, command: SetAlias | RemoveAlias) -> list[Fact]:
    holder = next((a for a in shelf.artifacts.values() if command.alias in a.aliases), None)
    if isinstance(command, RemoveAlias):
        if holder is None:
            return []
        said = AliasRemoved(alias=command.alias, removed_by=command.by)
        return [Fact(at=command.at, alias_removed=said)]
    _loadable(_kept(shelf, command.digest))
    if holder is not None and holder.digest == command.digest:
        return []
    return [
        Fact(
            at=command.at,
            alias_set=AliasSet(alias=command.alias, digest=command.digest, set_by=command.by),
        )
    ]


def _actor(shelf: RunArtifacts, command: Activate | Retire) -> list[Fact]:
    holder = next((a for a in shelf.artifacts.values() if command.actor in a.actors), None)
    if isinstance(command, Retire):
        if holder is None:
            return []
        said = CheckpointRetired(actor=command.actor, digest=holder.digest)
        return [Fact(at=command.at, checkpoint_retired=said)]
    _loadable(_kept(shelf, command.digest))
    if holder is not None and holder.digest == command.digest:
        return []
    activated = CheckpointActivated(actor=command.actor, digest=command.digest, activated_by=command.by)
    return [Fact(at=command.at, checkpoint_activated=activated)]


def _known(shelf: RunArtifacts, digest: str) -> Artifact:
    artifact = shelf.artifacts.get(digest)
    if artifact is None:
        raise Refused(f"{digest[:12]} has not been verified yet; try again in a moment")
    return artifact


def _kept(shelf: RunArtifacts, digest: str) -> Artifact:
    artifact = _known(shelf, digest)
    if artifact.keeping != KEPT:
        raise Refused(obstacle(artifact))
    return artifact


def _loadable(artifact: Artifact) -> None:
    if why := obstacle(artifact):
        raise Refused(why)
