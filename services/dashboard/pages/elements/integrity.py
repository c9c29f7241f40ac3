"""Badges for the integrity and retention of an artifact."""

from __future__ import annotations

from nicegui import ui

from runspine.text.artifacts import retained_parts
from runspine.wire.v1 import artifacts_pb2 as wire

INTEGRITY = {
    wire.UNVERIFIED: ("not verified yet", "rs-queued"),
    wire.GOOD: ("good", "rs-completed"),
    wire.CORRUPT: ("corrupt", "rs-failed"),
}


def integrity_badge(artifact: wire.Artifact) -> None:
    if artifact.keeping == wire.PRUNED:
        text, style, tooltip = "pruned", "rs-stale", f"by {artifact.rule}"
    elif artifact.keeping == wire.ERASED:
        text, style, tooltip = "erased", "rs-cancelled", f"by {artifact.rule}"
    else:
        text, style = INTEGRITY.get(artifact.integrity, ("unknown", ""))
        tooltip = artifact.flaw or f"SHA-256 {artifact.digest}"
    with ui.label(text).classes(f"rs-badge {style}"):
        ui.tooltip(tooltip)


def retained_text(status: wire.RetentionStatus) -> str:
    """Counts per kind, such as `2/5 videos retained`."""
    return " · ".join(f"{part} retained" for part in retained_parts(status))
