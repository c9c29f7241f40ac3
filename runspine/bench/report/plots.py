"""Images of the report: bars for each comparison, and curves for the growth of costs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from runspine.bench.kit.figures import CostCurve, shown
from runspine.bench.report.comparisons import ComparedFigure
from runspine.text.figure_style import COLOURS, STYLE

OURS, OTHERS, LIMITS = COLOURS[0], "#B8BEC6", "#E2C48D"
GREY = "#555555"
PLAIN = {**STYLE, "svg.fonttype": "path", "font.size": 9.5}
DOTS = ("o", "s", "^", "D")


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel of the growth image; `limit` is the target, drawn as a line."""

    name: str
    title: str
    x: str
    y: str
    limit: float | None = None


CHARTS = (
    Chart("runs", "Runs submitted at once", "runs", "seconds"),
    Chart("facts", "Start of the orchestrator", "facts on the log", "seconds", limit=5),
    Chart("fleet submit", "A submit: what it asks of the workers", "workers online", "CPU seconds"),
    Chart("fleet queue", "A run more in the queue", "queued runs", "CPU seconds"),
    Chart("fleet leases", "A second of leases", "open runs", "CPU seconds"),
    Chart("fleet progress", "Progress for ten watching clients", "open runs", "CPU seconds"),
    Chart("fleet ended", "Lists and snapshots", "ended runs", "CPU seconds", limit=0.05),
    Chart("points", "First chart of a series", "points", "seconds", limit=1),
    Chart("workers", "Steps made durable", "workers, one trainer each", "steps/s", limit=100_000),
    Chart("facts memory", "What a log takes", "facts on the log", "MiB"),
    Chart("workers cost", "CPU in worker, NATS, telemetry and S3", "workers, one trainer each", "µs a step"),
)


def draw_comparison(found: ComparedFigure, file: Path) -> None:
    """Draw bars from best to worst on a logarithmic axis, ours in colour."""
    figures = found.figures
    with rc_context(PLAIN):
        figure = Figure(figsize=(7.6, 0.36 * len(figures) + 0.95), layout="constrained")
        axes = figure.add_subplot()
        low = 10 ** math.floor(math.log10(min(f.value for f in figures)) - 0.15)
        for place, each in enumerate(figures):
            colour = OURS if each.who.startswith("runspine") else OTHERS
            if each.who.startswith(("bare", "the disk")):
                colour = LIMITS
            axes.barh(place, each.value - low, left=low, color=colour, height=0.66, zorder=3)
            ratio = found.ratio(each)
            relative = "" if each is found.base or math.isnan(ratio) else f"   × {ratio:.3g}"
            axes.annotate(
                f"{shown(each.value)}{relative}", (each.value, place), xytext=(5, 0),
                textcoords="offset points", va="center", fontsize=8.5, color=GREY,
            )  # fmt: skip
        axes.set_yticks(range(len(figures)), [f.who for f in figures])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(low, max(f.value for f in figures) * 6)
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        better = "more is better" if found.comparison.more_is_better else "less is better"
        axes.set_title(f"{found.title} ({found.comparison.unit}, {better})", fontsize=10)
        _plain_numbers(axes.xaxis)
        _save(figure, file)


def draw_growth(curves: Iterable[CostCurve], file: Path) -> bool:
    """Draw the curves; return whether there was anything to draw."""
    every = [curve for curve in curves if curve.points]
    charts = [chart for chart in CHARTS if any(curve.chart == chart.name for curve in every)]
    if not charts:
        return False
    rows = math.ceil(len(charts) / 2)
    with rc_context(PLAIN):
        figure = Figure(figsize=(9.6, 3.6 * rows), layout="constrained")
        panels = figure.subplots(rows, 2, squeeze=False).ravel()
        for axes, chart in zip(panels, charts, strict=False):
            _draw(axes, chart, [curve for curve in every if curve.chart == chart.name])
        for axes in panels[len(charts) :]:
            axes.set_visible(False)
        _save(figure, file)
    return True


def _draw(axes: Any, chart: Chart, curves: list[CostCurve]) -> None:
    for number, curve in enumerate(curves):
        x, y = zip(*curve.points, strict=True)
        peer = curve.name.startswith(("Ray", "TensorBoard"))
        colour = "#8A929C" if peer else COLOURS[number % len(COLOURS)]
        dash = (0, (4, 2)) if peer else "-"
        axes.plot(x, y, marker=DOTS[number % 4], markersize=5, color=colour, linestyle=dash, label=curve.name)
    if chart.limit is not None:
        axes.axhline(chart.limit, color="#C0392B", linewidth=1, linestyle=(0, (2, 2)), label="target")
    axes.set_xscale("log", base=2 if "workers" in chart.name else 10)
    if chart.name != "workers cost":
        axes.set_yscale("log")
    if "workers" in chart.name:
        axes.set_xticks([x for x, _ in curves[0].points], [f"{x:g}" for x, _ in curves[0].points])
        low, high = axes.get_ylim()
        axes.set_ylim((low / 2, high * 2) if chart.name == "workers" else (0, high * 1.3))
    else:
        _plain_numbers(axes.xaxis)
    if chart.name != "workers cost":
        _plain_numbers(axes.yaxis)
    axes.set_title(chart.title, fontsize=10)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if len(curves) > 1 or chart.limit is not None:
        # Below the axes, away from the curves.
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=8)


def _plain_numbers(axis: Any) -> None:
    low, high = axis.get_view_interval()
    # Within two decades, powers of ten alone would leave an axis without a number.
    steps = (1.0, 2.0, 5.0) if high / max(low, 1e-12) < 100 else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    axis.set_major_formatter(FuncFormatter(_tick_text))
    axis.set_minor_formatter(NullFormatter())


def _tick_text(value: float, _: object) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def _save(figure: Any, file: Path) -> None:
    for suffix in (".png", ".svg"):
        more = {"metadata": {"Date": None}} if suffix == ".svg" else {}
        figure.savefig(file.with_suffix(suffix), dpi=150, facecolor="white", **more)
