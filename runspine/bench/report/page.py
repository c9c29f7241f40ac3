"""Writes the report as Markdown, JSON and images."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from runspine.bench.kit.figures import Figure, figure_as_json, shown
from runspine.bench.report import kills
from runspine.bench.report.comparisons import ComparedFigure, compared
from runspine.bench.report.gather import Taken
from runspine.bench.report.parts import PARTS
from runspine.bench.report.targets import Answer, answers

MARKS = {True: "✓ met", False: "✗ **not met**", None: "–"}
# Share of the cores above which the machine counts as busy.
BUSY_SHARE = 0.15
GROWTH = (
    "Both axes are logarithmic, except for the CPU of a step: a flat line does not grow, a line with slope 1 "
    "grows in proportion. Grey and dashed: other tools."
)


def write(folder: Path, taken: dict[str, Taken]) -> list[Answer]:
    """Write all files of the report; return the answers to the targets."""
    from runspine.bench.report.plots import draw_comparison, draw_growth  # matplotlib takes half a second

    figures = [figure for part in taken.values() for figure in part.figures]
    answered, comparisons = answers(figures), compared(figures)
    for each in comparisons:
        draw_comparison(each, folder / f"{each.comparison.group}.png")
    curves = [curve for part in taken.values() for curve in part.curves]
    grown = draw_growth(curves, folder / "growth.png")
    lines = [*_head(taken), *_targets(answered, kills.row(folder.parent / "chaos"))]
    lines += [
        "## Compared with other tools",
        "",
        *(line for each in comparisons for line in _comparison(each)),
    ]
    if grown:
        lines += ["## How costs grow", "", GROWTH, "", "![How each cost grows](growth.png)", ""]
    lines += ["## Part by part", "", *(line for name in taken for line in _part(name, taken[name]))]
    lines += [*_machine(taken), *_when(taken)]
    (folder / "report.md").write_text("\n".join(lines).rstrip() + "\n")
    (folder / "report.json").write_text(
        json.dumps(as_json(taken, answered), indent=1, ensure_ascii=False) + "\n"
    )
    return answered


def as_json(taken: dict[str, Taken], answered: list[Answer]) -> dict[str, object]:
    return {
        "targets": [
            {
                "target": each.target.what, "limit": each.target.text, "met": each.met, "gap": each.gap,
                "measured": each.figure.value if each.figure else None,
            }
            for each in answered
        ],
        "parts": [_part_as_json(part) for part in taken.values()],
    }  # fmt: skip


def _part_as_json(part: Taken) -> dict[str, object]:
    figures = [figure_as_json(figure) for figure in part.figures]
    for fields in figures:
        if not math.isfinite(fields["value"]):
            fields["value"] = None
    return {**asdict(part), "figures": figures}


def _head(taken: dict[str, Taken]) -> Iterator[str]:
    sizes = sorted({part.size for part in taken.values()})
    machine = next((part.machine for part in taken.values() if part.machine), {})
    yield "# Benchmark report"
    yield ""
    if not taken:
        yield "Nothing was measured."
        return
    first, last = (pick(part.at for part in taken.values()) for pick in (min, max))
    when = _day(first) if _day(first) == _day(last) else f"{_day(first)} to {_day(last)}"
    yield (
        f"Measured on {when}, size *{', '.join(sizes)}*, on one machine with {machine.get('cores', '?')} "
        f"cores ({machine.get('CPU', 'not known')}), {machine.get('memory', '?')} of memory. "
        "Peers did their work in the same run, on the same cores and the same disk: **trust ratios, not "
        "digits.** Figures are medians; the spread is the lowest and the highest round."
    )
    yield ""
    if busy := [PARTS[name].title for name, part in taken.items() if _busy(part)]:
        yield (
            f"**The machine had other work** when these were begun: {', '.join(busy)}. Their speeds are "
            "those of a busy machine; how busy is stated at the end."
        )
        yield ""
    if "tiny" in sizes:
        yield "**Size *tiny* only shows that everything works; its figures mean nothing.**"
        yield ""


def _targets(answered: list[Answer], counted: str) -> Iterator[str]:
    met = sum(each.met is True for each in answered)
    known = sum(each.met is not None for each in answered)
    yield "## Targets"
    yield ""
    yield f"{met} of {known} measured targets are met."
    yield ""
    yield "| what | target | measured | | gap and its reason |"
    yield "|---|---|---|---|---|"
    for each in answered:
        value = f"**{shown(each.figure.value)}** {each.target.unit}".strip() if each.figure else "–"
        value += _spread(each.figure)
        yield f"| {each.target.what} | {each.target.text} | {value} | {MARKS[each.met]} | {each.gap} |"
    yield counted
    yield ""


def _spread(figure: Figure | None) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return ""
    return f" ({shown(figure.low)} – {shown(figure.high)})"


def _comparison(found: ComparedFigure) -> Iterator[str]:
    yield f"### {found.title}"
    yield ""
    yield found.comparison.about
    yield ""
    yield f"![{found.title}]({found.comparison.group}.png)"
    yield ""
    base = found.base.who if found.base else "runspine"
    yield f"| | {found.comparison.unit} | spread | ÷ {base} |"
    yield "|---|---:|---:|---:|"
    for each in found.figures:
        name = f"**{each.who}**" if each.who.startswith("runspine") else each.who
        ratio = found.ratio(each)
        relative = "1" if each is found.base else f"{ratio:.3g}" if math.isfinite(ratio) else ""
        yield f"| {name} | {shown(each.value)} | {_spread(each).strip(' ()')} | {relative} |"
    for each in found.missing:
        yield f"| {each.who} | – | | {each.context} |"
    yield ""


def _part(name: str, taken: Taken) -> Iterator[str]:
    yield f"### {PARTS[name].title}"
    yield ""
    yield PARTS[name].about
    yield ""
    if taken.trouble:
        yield f"Not measured: {taken.trouble}"
        yield ""
        return
    yield "| what | measured | spread | target | compared with |"
    yield "|---|---:|---:|---|---|"
    for f in taken.figures:
        value = f"{shown(f.value)} {f.unit}" if math.isfinite(f.value) else "–"
        mark = {True: " ✓", False: " ✗", None: ""}[f.met]
        yield f"| {f.what} | {value} | {_spread(f).strip(' ()')} | {f.target}{mark} | {f.context} |"
    yield ""


def _machine(taken: dict[str, Taken]) -> Iterator[str]:
    last = max((part for part in taken.values() if part.machine), key=lambda part: part.at, default=None)
    if last is None:
        return
    yield "## The machine"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in last.machine.items():
        yield f"| {name} | {value} |"
    versions = {name: value for part in taken.values() for name, value in part.versions.items()}
    yield f"| packages | {', '.join(f'{name} {value}' for name, value in versions.items())} |"
    yield ""


def _when(taken: dict[str, Taken]) -> Iterator[str]:
    yield "## When each part was taken"
    yield ""
    yield "Times are UTC. *Others* is what else used the cores just before, the load is its own."
    yield ""
    yield "| part | size | begun | took | others | load | again |"
    yield "|---|---|---|---:|---:|---:|---|"
    for name, part in taken.items():
        again = f"`runspine bench report {name} --size {part.size}`"
        begun, took = _minute(part.at), f"{part.seconds:.0f} s"
        used = f"{part.others:.0%} | {part.load:.1f}"
        yield f"| {PARTS[name].title} | {part.size} | {begun} | {took} | {used} | {again} |"
    for name in _absent(taken):
        yield f"| {PARTS[name].title} | | not measured | | | | `runspine bench report {name}` |"
    yield ""


def _busy(part: Taken) -> bool:
    return part.others > BUSY_SHARE


def _absent(taken: Iterable[str]) -> list[str]:
    return [name for name in PARTS if name not in set(taken)]


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def _minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))
