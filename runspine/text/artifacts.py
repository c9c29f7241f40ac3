"""Retention state of artifacts as text."""

from __future__ import annotations

import time

from runspine.text.values import escaped, size, span, when
from runspine.wire.v1 import artifacts_pb2 as wire

# Kinds that are no countable words.
_FILES = frozenset({"tensorboard", "wandb"})


def kind_text(kind: str, count: int) -> str:
    """The name of a kind for so many artifacts: 1 video, 2 videos, 2 plans, 2 wandb files."""
    if kind in _FILES:
        return f"{escaped(kind)} {'file' if count == 1 else 'files'}"
    return escaped(kind) if count == 1 or kind.endswith("s") else f"{escaped(kind)}s"


def retained_parts(status: wire.RetentionStatus) -> list[str]:
    """Counts of each kind, such as `2/5 videos`."""
    return [f"{kind.retained}/{kind.total} {kind_text(kind.kind, kind.total)}" for kind in status.kinds]


def pruned_text(status: wire.RetentionStatus) -> str:
    """What was pruned of a run, and when."""
    return f"{size(status.pruned_bytes)} pruned, last {when(status.last_pruned_at)}"


def runs_with_text(status: wire.RunsWithStatus) -> str:
    """The count under a limit of runs, such as `3/7 runs with tensorboard files retained`."""
    return f"{status.retained}/{status.total} runs with {kind_text(status.kind, 2)} retained"


def janitor_text(term: wire.JanitorTerm) -> str:
    """Which process prunes by the rules, and since when."""
    if not term.holder:
        return "no janitor is at work: nothing is pruned automatically"
    return f"janitor {escaped(term.holder)}, term {term.term}, since {when(term.since)}"


def keeping_text(artifact: wire.Artifact) -> str:
    """Why an artifact is kept, or by which rule it was pruned."""
    if artifact.keeping == wire.PRUNED:
        return f"pruned by {escaped(artifact.rule)}; {undo_text(artifact.undo_until)}"
    if artifact.keeping == wire.ERASED:
        return f"pruned by {escaped(artifact.rule)} and erased"
    return ", ".join(holders(artifact))


def undo_text(until: int) -> str:
    """How long a prune can be undone."""
    left = until / 1e6 - time.time()
    if left <= 0:
        return "can be restored only until the next janitor run"
    return f"can be restored for {span(left)}"


def holders(artifact: wire.Artifact) -> list[str]:
    return [
        *(["pinned"] if artifact.pinned else []),
        *(escaped(alias) for alias in artifact.aliases),
        *(f"actor {escaped(actor)}" for actor in artifact.actors),
    ]
