"""Rules of a run's artifacts: which facts follow from a command. `decide` may refuse but changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from runspine.domain.artifact.commands import (
    Activate,
    Command,
    Erase,
    Import,
    Index,
    MarkCorrupt,
    MarkGood,
    Pin,
    Prune,
    PruneTarget,
    RemoveAlias,
    Restore,
    Retire,
    SetAlias,
    Unpin,
)
from runspine.domain.run import RunRefusedError
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


def decide(state: RunArtifacts, command: Command) -> list[Fact]:
    """The facts that follow from a command; none when it changes nothing."""
    match command:
        case Index():
            return _index(state, command)
        case MarkCorrupt():
            return _mark_corrupt(state, command)
        case MarkGood():
            return _mark_good(state, command)
        case Pin() | Unpin():
            return _pin(state, command)
        case Prune():
            return _prune(state, command)
        case Restore():
            return _restore(state, command)
        case Erase():
            return _erase(state, command)
        case SetAlias() | RemoveAlias():
            return _alias(state, command)
        case Import(at=at, imported=imported):
            if state.imported == imported:
                return []
            return [Fact(at=at, checkpoint_imported=imported)]
        case Activate() | Retire():
            return _actor(state, command)


def obstacle(artifact: Artifact) -> str:
    """Why an artifact cannot be loaded; empty when it is good and kept."""
    what = f"{artifact.name or 'artifact'} ({artifact.digest[:12]})"
    if artifact.keeping == ERASED:
        return f"{what} was pruned by {artifact.rule} and erased"
    if artifact.keeping == PRUNED:
        return f"{what} was pruned by {artifact.rule}; `runspine prune --undo {artifact.batch}` restores it"
    if artifact.integrity == CORRUPT:
        return f"{what} is corrupt: {artifact.flaw}"
    if artifact.integrity != GOOD:
        return f"{what} has not been verified yet; try again in a moment"
    return ""


def hold_reason(state: RunArtifacts, artifact: Artifact, *, with_aliases: bool = False) -> str:
    """What protects an artifact from pruning; empty when nothing does. `with_aliases`: an alias does not."""
    if artifact.pinned:
        return "pinned"
    if state.pinned:
        return "its run is pinned"
    if artifact.aliases and not with_aliases:
        return f"alias {artifact.aliases[0]}"
    if artifact.actors:
        return f"actor {artifact.actors[0]}"
    return ""


def _index(state: RunArtifacts, command: Index) -> list[Fact]:
    facts: list[Fact] = []
    for read in command.read:
        produced = read.artifact
        artifact = state.artifacts.get(produced.digest)
        # Compared as bytes, because NaN is not equal to itself.
        known = [] if artifact is None else [_bytes(production) for production in artifact.productions]
        known += [_bytes(fact.artifact_indexed.artifact) for fact in facts]
        if _bytes(produced) in known:
            facts += _mark_good(state, MarkGood(command.at, produced.digest, "index"))
        else:
            facts.append(Fact(at=command.at, artifact_indexed=read))
    return facts


def _bytes(message: object) -> bytes:
    return message.SerializeToString(deterministic=True)  # type: ignore[attr-defined, no-any-return]


def _mark_corrupt(state: RunArtifacts, command: MarkCorrupt) -> list[Fact]:
    artifact = state.artifacts.get(command.digest)
    if artifact is not None:
        claimed = command.produced_at > max(artifact.checked_at, artifact.pruned_at)
        if not claimed and (artifact.keeping != KEPT or artifact.integrity == CORRUPT):
            return []
    corrupt = ArtifactCorrupt(
        digest=command.digest,
        flaw=command.problem,
        found_by=command.found_by,
        produced_at=command.produced_at,
    )
    return [Fact(at=command.at, artifact_corrupt=corrupt)]


def _mark_good(state: RunArtifacts, command: MarkGood) -> list[Fact]:
    artifact = state.artifacts.get(command.digest)
    if artifact is None or artifact.integrity != CORRUPT or not artifact.productions:
        return []
    return [
        Fact(at=command.at, artifact_mended=ArtifactMended(digest=command.digest, found_by=command.found_by))
    ]


def _pin(state: RunArtifacts, command: Pin | Unpin) -> list[Fact]:
    wanted = isinstance(command, Pin)
    if command.digest:
        artifact = _kept(state, command.digest) if wanted else _known(state, command.digest)
        pinned = artifact.pinned
    else:
        pinned = state.pinned
    if pinned == wanted:
        return []
    if isinstance(command, Pin):
        body = ArtifactPinned(digest=command.digest, pinned_by=command.by, reason=command.reason)
        return [Fact(at=command.at, artifact_pinned=body)]
    return [
        Fact(at=command.at, artifact_unpinned=ArtifactUnpinned(digest=command.digest, unpinned_by=command.by))
    ]


def _can_prune(state: RunArtifacts, target: PruneTarget) -> bool:
    """False for an artifact that was pinned since the plan was made, or is pruned already."""
    artifact = state.artifacts.get(target.digest)
    if artifact is None or artifact.keeping != KEPT:
        return False
    return not hold_reason(state, artifact, with_aliases=target.with_aliases)


def _prune(state: RunArtifacts, command: Prune) -> list[Fact]:
    facts = []
    for target in command.targets:
        if not _can_prune(state, target):
            continue
        aliases = state.artifacts[target.digest].aliases
        removed = [AliasRemoved(alias=alias, removed_by=command.by) for alias in aliases]
        facts += [Fact(at=command.at, alias_removed=each) for each in removed]
        facts.append(_pruned(command, target, aliases))
    return facts


def _pruned(command: Prune, target: PruneTarget, aliases: Sequence[str]) -> Fact:
    pruned = ArtifactPruned(
        digest=target.digest,
        size=target.size,
        kind=target.kind,
        name=target.name,
        rule=target.rule,
        scope=target.scope,
        batch=command.batch,
        pruned_by=command.by,
        undo_until=command.undo_until,
        term=command.term,
        aliases=aliases,
    )
    return Fact(at=command.at, artifact_pruned=pruned)


def _restore(state: RunArtifacts, command: Restore) -> list[Fact]:
    found = [
        artifact
        for artifact in state.artifacts.values()
        if artifact.keeping == PRUNED and artifact.digest in command.digests
    ]
    facts = []
    for artifact in sorted(found, key=lambda artifact: artifact.digest):
        restored = ArtifactRestored(digest=artifact.digest, batch=artifact.batch, restored_by=command.by)
        facts.append(Fact(at=command.at, artifact_restored=restored))
        facts += [
            Fact(at=command.at, alias_set=AliasSet(alias=alias, digest=artifact.digest, set_by=command.by))
            for alias in artifact.pruned_aliases
            if alias not in command.taken
        ]
    return facts


def _erase(state: RunArtifacts, command: Erase) -> list[Fact]:
    artifact = state.artifacts.get(command.digest)
    if artifact is None or artifact.keeping != PRUNED:
        return []
    if artifact.undo_until > command.at:
        raise RunRefusedError(f"{artifact.name} can still be restored")
    erased = ArtifactErased(digest=artifact.digest, size=artifact.size)
    return [Fact(at=command.at, artifact_erased=erased)]


def _alias(state: RunArtifacts, command: SetAlias | RemoveAlias) -> list[Fact]:
    holder = next((a for a in state.artifacts.values() if command.alias in a.aliases), None)
    if isinstance(command, RemoveAlias):
        if holder is None:
            return []
        removed = AliasRemoved(alias=command.alias, removed_by=command.by)
        return [Fact(at=command.at, alias_removed=removed)]
    _loadable(_kept(state, command.digest))
    if holder is not None and holder.digest == command.digest:
        return []
    return [
        Fact(
            at=command.at,
            alias_set=AliasSet(alias=command.alias, digest=command.digest, set_by=command.by),
        )
    ]


def _actor(state: RunArtifacts, command: Activate | Retire) -> list[Fact]:
    holder = next((a for a in state.artifacts.values() if command.actor in a.actors), None)
    if isinstance(command, Retire):
        if holder is None:
            return []
        retired = CheckpointRetired(actor=command.actor, digest=holder.digest, env=command.env)
        return [Fact(at=command.at, checkpoint_retired=retired)]
    _loadable(_kept(state, command.digest))
    if holder is not None and holder.digest == command.digest:
        return []
    activated = CheckpointActivated(
        actor=command.actor, digest=command.digest, activated_by=command.by, env=command.env
    )
    return [Fact(at=command.at, checkpoint_activated=activated)]


def _known(state: RunArtifacts, digest: str) -> Artifact:
    artifact = state.artifacts.get(digest)
    if artifact is None:
        raise RunRefusedError(f"{digest[:12]} has not been verified yet; try again in a moment")
    return artifact


def _kept(state: RunArtifacts, digest: str) -> Artifact:
    artifact = _known(state, digest)
    if artifact.keeping != KEPT:
        raise RunRefusedError(obstacle(artifact))
    return artifact


def _loadable(artifact: Artifact) -> None:
    if why := obstacle(artifact):
        raise RunRefusedError(why)
