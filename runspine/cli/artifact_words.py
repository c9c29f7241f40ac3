"""Words and tables for artifacts, shared by the commands that show them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runspine.cli.screen import Cell, drawable, table
from runspine.cli.text import age, escaped, middle_cut, short_ids, size, span
from runspine.wire.v1 import artifacts_pb2 as wire

LOOKS = {
    wire.UNVERIFIED: ("○", "not verified yet", "cyan"),
    wire.GOOD: ("✓", "good", "green"),
    wire.CORRUPT: ("✗", "corrupt", "red"),
}


def integrity_cell(artifact: wire.Artifact) -> Cell:
    if artifact.keeping == wire.PRUNED:
        return Cell(f"{drawable('⊘')} pruned", "magenta")
    if artifact.keeping == wire.ERASED:
        return Cell(f"{drawable('⊘')} erased", "dim")
    symbol, word, style = LOOKS.get(artifact.integrity, ("?", "unknown", "yellow"))
    return Cell(f"{drawable(symbol)} {word}", style)


def keeping_words(artifact: wire.Artifact) -> str:
    """Why it stays or why it went."""
    if artifact.keeping == wire.PRUNED:
        return f"pruned by {escaped(artifact.rule)}; {undo_words(artifact.undo_until)}"
    if artifact.keeping == wire.ERASED:
        return f"pruned by {escaped(artifact.rule)} and erased"
    return ", ".join(held(artifact))


def undo_words(until: int) -> str:
    """How long a prune can be taken back."""
    left = until / 1e6 - time.time()
    if left <= 0:
        return "can be had back only until the next round of the janitor"
    return f"can be had back for {span(left)}"


def held(artifact: wire.Artifact) -> list[str]:
    return [
        *(["pinned"] if artifact.pinned else []),
        *(escaped(alias) for alias in artifact.aliases),
        *(f"actor {escaped(actor)}" for actor in artifact.actors),
    ]


def show_artifacts(artifacts: Sequence[wire.Artifact], *, with_run: bool) -> None:
    short = short_ids({artifact.run_id for artifact in artifacts})
    headings = [
        "STATE",
        *(["RUN"] if with_run else []),
        "KIND",
        "STEP",
        "SIZE",
        "AGE",
        "DIGEST",
        "NAME",
        "HELD BY",
    ]
    rows: list[list[Cell | str]] = [
        [
            integrity_cell(artifact),
            *([short[artifact.run_id]] if with_run else []),
            artifact.kind,
            f"{artifact.step:,}" if artifact.step else "",
            size(artifact.size),
            age(artifact.produced_at),
            artifact.digest[:12],
            middle_cut(artifact.name, 40),
            keeping_words(artifact) if artifact.integrity != wire.CORRUPT else artifact.flaw,
        ]
        for artifact in artifacts
    ]
    if not any(row[-1] for row in rows):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    table(headings, rows, right=("STEP", "SIZE", "AGE"))
