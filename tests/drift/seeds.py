"""docs/seeds.md, from docs/seeds.yaml."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import yaml

from tests.kit.paths import ROOT

SOURCE = ROOT / "docs" / "seeds.yaml"
DOCUMENTS = {
    "000": "How CleanRL logs and tracks",
    "001": "Training of agents, from the service to the page",
    "002": "Live grids and evaluation of policies",
    "003": "CleanRL runs from the form to their artifacts",
    "004": "Artifacts and metrics of a run",
}
STATES = {
    "done": "is there",
    "replaced": "something else does its work",
    "page": "is there on the command line; the web page gets it with its new form",
    "open": "is not there yet",
    "not done": "is left out on purpose",
    "none": "has no meaning here",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that the documents ask for."""

    number: int
    at: str
    asks: str
    state: str
    shown: tuple[str, ...] = ()
    why: str = ""


def rows() -> list[Row]:
    """All rows in the order of the file. Raises TypeError for a field that is not known or missing."""
    loaded: dict[int, dict[str, Any]] = yaml.safe_load(SOURCE.read_text())
    return [Row(number, **{**row, "shown": tuple(row.get("shown", ()))}) for number, row in loaded.items()]


def seeds_doc() -> str:
    found = rows()
    counts = Counter(row.state for row in found)
    lines = [
        "# What the requirement documents ask for",
        "",
        "Runspine answers five requirement documents, 000 to 004. Read line by line, they ask for",
        f"{len(found)} things; here is each with its place (document:lines), its state, and the test or",
        "command that shows it. The page is drawn from `docs/seeds.yaml` by `make proto`;",
        "`tests/docs/test_seeds.py` checks that every test and command exists.",
        "",
        "| state | | rows |",
        "|---|---|---|",
        *(f"| {state} | {meaning} | {counts[state]} |" for state, meaning in STATES.items() if counts[state]),
    ]
    for document, title in DOCUMENTS.items():
        lines += ["", f"## {document}: {title}", ""]
        lines += ["| row | place | what is asked for | state | shown by |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in found if row.at.startswith(document)]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    state = f"**{row.state}**: {row.why}" if row.why else row.state
    shown = "<br>".join(f"`{each}`" for each in row.shown)
    cells = (str(row.number), row.at, row.asks, state, shown)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
