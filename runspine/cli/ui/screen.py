"""Output of commands: colours and tables on a terminal, aligned plain text elsewhere, JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runspine.domain.run import ENDED
from runspine.spec.plain import json_text
from runspine.text.values import escaped
from runspine.wire.v1.run_pb2 import Phase, Run

if TYPE_CHECKING:
    from rich.console import Console

# Symbol and colour of each phase.
PHASE_STYLES = {
    "submitted": ("·", "dim"),
    "queued": ("○", "cyan"),
    "running": ("●", "blue"),
    "stale": ("?", "yellow"),
    "cancelling": ("◌", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "quarantined": ("!", "red"),
    "cancelled": ("⊘", "magenta"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell: text, and its style on a terminal."""

    text: str
    style: str = ""


def echo(text: str = "", style: str = "") -> None:
    """Print a line on stdout. Text from outside must be escaped by the caller."""
    if style and sys.stdout.isatty():
        from rich.text import Text

        console().print(Text(text, style=style), soft_wrap=True)
    else:
        print(text)


def note(text: str) -> None:
    """Print a hint or a notice on stderr."""
    print(text, file=sys.stderr)


def echo_json(value: object) -> None:
    print(json_text(value), flush=True)


def console(*, stderr: bool = False) -> Console:
    """Return a Rich console, which honours NO_COLOR and TERM=dumb."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def phase_word(phase: int) -> str:
    return Phase.Name(phase).lower() if phase in Phase.values() else f"phase {phase}"


def phase_cell(phase: int) -> Cell:
    word = phase_word(phase)
    symbol, style = PHASE_STYLES.get(word, ("?", ""))
    return Cell(f"{drawable(symbol)} {word}", style)


def drawable(symbol: str) -> str:
    """Return the symbol, or `*` where stdout cannot encode it."""
    try:
        symbol.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "*"
    return symbol


def has_ended(run: Run) -> bool:
    return run.phase in ENDED


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell | str]], right: Sequence[str] = ()) -> None:
    """Print a table; columns named in `right` are right-aligned."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(headings, cells, right)
        return
    from rich.cells import cell_len

    texts = [list(headings), *([escaped(cell.text) for cell in row] for row in cells)]
    widths = [max(cell_len(row[i]) for row in texts) for i in range(len(headings))]
    for row in texts:
        padded = []
        for heading, text, width in zip(headings, row, widths, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if heading in right else text + space)
        print("  ".join(padded).rstrip())


def _rich_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], right: Sequence[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        drawn.add_column(
            heading, justify="right" if heading in right else "left", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        drawn.add_row(*(Text(escaped(cell.text), style=cell.style) for cell in row))
    console().print(drawn)


def is_live(as_json: bool) -> bool:
    """Whether stderr is a terminal on which progress bars can be drawn."""
    return not as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
