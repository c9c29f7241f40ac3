"""Tables and status words of artifacts."""

from __future__ import annotations

from collections.abc import Sequence

from runspine.cli.ui.screen import Cell, drawable, table
from runspine.text.artifacts import keeping_text
from runspine.text.values import age, middle_cut, short_ids, size
from runspine.wire.v1 import artifacts_pb2 as wire

INTEGRITY_STYLES = {
    wire.UNVERIFIED: ("○", "not verified yet", "cyan"),
    wire.GOOD: ("✓", "good", "green"),
    wire.CORRUPT: ("✗", "corrupt", "red"),
}


def integrity_cell(artifact: wire.Artifact) -> Cell:
    if artifact.keeping == wire.PRUNED:
        return Cell(f"{drawable('⊘')} pruned", "magenta")
    if artifact.keeping == wire.ERASED:
        return Cell(f"{drawable('⊘')} erased", "dim")
    symbol, word, style = INTEGRITY_STYLES.get(artifact.integrity, ("?", "unknown", "yellow"))
    return Cell(f"{drawable(symbol)} {word}", style)


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
            keeping_text(artifact) if artifact.integrity != wire.CORRUPT else artifact.flaw,
        ]
        for artifact in artifacts
    ]
    if not any(row[-1] for row in rows):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    table(headings, rows, right=("STEP", "SIZE", "AGE"))
