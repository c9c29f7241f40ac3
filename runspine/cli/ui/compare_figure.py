"""A comparison as a Matplotlib figure; curves differ in colour and in dash pattern."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from runspine.compare.comparison import ComparedGroup, Comparison, Settings
from runspine.errors import InvalidError
from runspine.text.figure_style import COLOURS, STYLE

# Okabe and Ito, without yellow, which is lost on white.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))


def save_figure(path: Path, found: Comparison, *, metric: str, x_label: str, settings: Settings) -> None:
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        for number, group in enumerate(found.groups):
            _draw(axes, group, number)
        if found.threshold_given:
            _draw_reference(axes, f"threshold {found.threshold:g}", found.threshold)
        for line in found.references:
            _draw_reference(axes, f"{line.label} {line.value:.4g}", line.value)
        axes.set_xlabel(x_label)
        axes.set_ylabel(_y_label(metric))
        axes.set_title(_title(found, settings), fontsize=9, color="#555555", fontweight="normal")
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.margins(x=0.01)
        _legend(figure, axes, len(found.groups))
        _save(figure, path)


def _draw(axes: Any, group: ComparedGroup, number: int) -> None:
    colour = COLOURS[number % len(COLOURS)]
    band = group.band
    dash = DASHES[(number + number // len(COLOURS)) % len(DASHES)]
    label = f"{group.label} (n = {len(group.seeds)})"
    axes.plot(band.x, band.y, color=colour, linestyle=dash, linewidth=1.8, label=label, zorder=3)
    if np.isfinite(band.low).any():
        axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.18, linewidth=0, zorder=2)


def _draw_reference(axes: Any, label: str, value: float) -> None:
    """A dashed line over the whole width, with its name at the right end."""
    axes.axhline(value, color="#888888", linewidth=1, linestyle=(0, (2, 2)))
    axes.annotate(
        label,
        (1, value),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=8,
        color="#666666",
    )


def _legend(figure: Any, axes: Any, groups: int) -> None:
    """Place the legend inside the axes, or to their right when there are many groups."""
    if groups > 6:
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    else:
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none", fontsize=9)


def _title(found: Comparison, settings: Settings) -> str:
    statistic = {"iqm": "Interquartile mean", "mean": "Mean"}[settings.statistic]
    if all(len(group.seeds) == 1 for group in found.groups):
        return "One seed each"
    return f"{statistic} over seeds, {settings.confidence * 100:g} % stratified bootstrap interval"


def _y_label(metric: str) -> str:
    return {"episode/return": "Episode return", "episode/length": "Episode length (steps)"}.get(
        metric, metric
    )


def _thousands(value: float, _: object) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _save(figure: Any, path: Path) -> None:
    draft = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        figure.savefig(draft, dpi=160, facecolor="white", metadata=_plain_metadata(path))
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidError(f"{path}: {error.strerror or error}") from error


def _plain_metadata(path: Path) -> dict[str, None]:
    """Metadata without a timestamp, so that the same comparison gives the same file."""
    return (
        {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else {}
    )
