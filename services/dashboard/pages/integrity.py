"""Whether a file is whole and kept, in a word."""

from __future__ import annotations

from nicegui import ui

from runspine.wire.v1 import artifacts_pb2 as wire

INTEGRITY = {
    wire.UNVERIFIED: ("not verified yet", "rs-queued"),
    wire.GOOD: ("good", "rs-completed"),
    wire.CORRUPT: ("corrupt", "rs-failed"),
}


def integrity_badge(artifact: wire.Artifact) -> None:
    if artifact.keeping == wire.PRUNED:
        word, look, why = "pruned", "rs-stale", f"by {artifact.rule}"
    elif artifact.keeping == wire.ERASED:
        word, look, why = "erased", "rs-cancelled", f"by {artifact.rule}"
    else:
        word, look = INTEGRITY.get(artifact.integrity, ("unknown", ""))
        why = artifact.flaw or f"SHA-256 {artifact.digest}"
    with ui.label(word).classes(f"rs-badge {look}"):
        ui.tooltip(why)


def retained_words(status: wire.RetentionStatus) -> str:
    """Such as `2/5 videos retained`."""
    return " · ".join(
        f"{kind.retained}/{kind.total} {kind.kind}{'' if kind.total == 1 else 's'} retained"
        for kind in status.kinds
    )
