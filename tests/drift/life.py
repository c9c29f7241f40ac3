"""docs/run-life.md and its picture, from the rules of a run; only where things stand is decided here."""

from __future__ import annotations

from runspine.domain.run.diagram import transitions
from runspine.domain.run.evolve import ENDED
from runspine.wire.v1.run_pb2 import Phase

WIDTH, HEIGHT = 132, 40
# The middle of each phase's box.
PLACES = {
    "SUBMITTED": (110, 190),
    "QUEUED": (330, 190),
    "RUNNING": (590, 190),
    "STALE": (590, 60),
    "CANCELLING": (590, 330),
    "FAILED": (870, 60),
    "COMPLETED": (870, 190),
    "CANCELLED": (870, 330),
}
# The way of each arrow, and the middle of its words.
WAYS: dict[tuple[str, str], tuple[str, tuple[int, int]]] = {
    ("[*]", "SUBMITTED"): ("M110 105 V166", (110, 98)),
    ("SUBMITTED", "QUEUED"): ("M176 190 H260", (219, 180)),
    ("QUEUED", "RUNNING"): ("M396 180 H520", (458, 172)),
    ("RUNNING", "QUEUED"): ("M524 202 H400", (462, 219)),
    ("QUEUED", "CANCELLING"): ("M330 210 C330 300 400 336 520 336", (352, 318)),
    ("RUNNING", "STALE"): ("M575 170 V84", (524, 150)),
    ("STALE", "RUNNING"): ("M605 80 V166", (654, 150)),
    ("STALE", "QUEUED"): ("M524 52 C410 52 330 90 330 166", (372, 78)),
    ("STALE", "CANCELLING"): ("M530 80 C462 130 470 262 520 318", (432, 276)),
    ("STALE", "FAILED"): ("M656 60 H800", (728, 51)),
    ("STALE", "COMPLETED"): ("M656 74 C740 90 810 120 840 166", (776, 88)),
    ("RUNNING", "FAILED"): ("M656 178 C740 160 800 120 832 84", (726, 152)),
    ("RUNNING", "COMPLETED"): ("M656 194 H800", (728, 212)),
    ("RUNNING", "CANCELLING"): ("M590 210 V306", (662, 262)),
    ("CANCELLING", "COMPLETED"): ("M656 320 C760 310 830 280 858 214", (788, 268)),
    ("CANCELLING", "CANCELLED"): ("M656 334 H800", (728, 352)),
}
STYLE = """
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #14262b; text-anchor: middle; }
.way { fill: none; stroke: #5a6f76; stroke-width: 1.6; marker-end: url(#tip); }
.fact { font-size: 11px; fill: #3d545b; paint-order: stroke; stroke: #f7fafa; stroke-width: 4px; }
.phase { fill: #ffffff; stroke: #0f766e; stroke-width: 1.6; }
.ended { fill: #12343b; stroke: #12343b; }
.ended + text { fill: #ffffff; }
"""


def life_doc() -> str:
    lines = [
        "# A run's life",
        "",
        "Drawn from `runspine/domain/run/decide.py` by `make proto`: every command is tried in every phase.",
        "Arrows are facts on `runs.<run_id>`; dark phases are the end.",
        "",
        "![The phases of a run and the facts that lead from one to the next](images/run-life.svg)",
        "",
        "| from | fact | to |",
        "|---|---|---|",
    ]
    lines += [
        f"| {_word(a)} | [`{fact}`](events.md#{fact.lower()}) | {_word(b)} |" for a, fact, b in transitions()
    ]
    return "\n".join(lines) + "\n"


def life_picture() -> str:
    facts: dict[tuple[str, str], list[str]] = {}
    for before, fact, after in transitions():
        facts.setdefault((before, after), []).append(fact)
    assert facts.keys() == WAYS.keys(), f"give these a way, or take it: {facts.keys() ^ WAYS.keys()}"
    parts = [f'<path class="way" d="{way}"/>' for way, _ in WAYS.values()]
    for ends, (_, (x, y)) in WAYS.items():
        parts += [
            f'<text class="fact" x="{x}" y="{y + 13 * n}">{fact}</text>' for n, fact in enumerate(facts[ends])
        ]
    ended = {Phase.Name(phase) for phase in ENDED}
    for name, (x, y) in PLACES.items():
        kind = "phase ended" if name in ended else "phase"
        corner = f'x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}"'
        parts.append(f'<rect class="{kind}" {corner} width="{WIDTH}" height="{HEIGHT}" rx="9"/>')
        parts.append(f'<text x="{x}" y="{y + 5}">{name}</text>')
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#5a6f76"/></marker>'
    )
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 390" role="img">'
    ground = '<rect width="980" height="390" rx="14" fill="#f7fafa"/>'
    return (
        "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{tip}</defs>", ground, *parts, "</svg>"]) + "\n"
    )


def _word(phase: str) -> str:
    return "" if phase == "[*]" else phase
