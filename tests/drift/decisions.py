"""docs/adr/index.md, from the titles of the decisions."""

from __future__ import annotations

from tests.kit.paths import ROOT

FOLDER = ROOT / "docs" / "adr"


def decisions_doc() -> str:
    lines = [
        "# Decisions",
        "",
        "Half a page each: the situation, what was decided, what follows from it. Listed by `make proto`.",
        "",
    ]
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        number, _, words = title.partition(". ")
        lines.append(f"{number}. [{words}]({path.name})")
    return "\n".join(lines) + "\n"
