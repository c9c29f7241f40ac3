"""A comparison as a table, as notes, as JSON and as rows of a file."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from runspine.cli.ui.screen import note, table
from runspine.compare.comparison import ComparedGroup, Comparison, Estimate, Settings
from runspine.text.values import escaped, middle_cut, number

UNITS = {"step": "steps", "time": "seconds", "episode": "episodes"}


def echo_table(found: Comparison, axis: str) -> None:
    headings = [
        "GROUP",
        "SEEDS",
        "FINAL IQM",
        "INTERVAL",
        "MEAN ± STD",
        "AREA",
        "INTERVAL",
        "REACHED",
        UNITS[axis].upper(),
    ]
    rows = [_row(group) for group in found.groups]
    table(headings, rows, right=headings[1:])


def _row(group: ComparedGroup) -> list[str]:
    return [
        middle_cut(group.label, 48),
        str(len(group.seeds)),
        _figure(group.final_iqm.value),
        _interval(group.final_iqm),
        _figure(group.final_mean)
        + (f" ± {_figure(group.final_std)}" if math.isfinite(group.final_std) else ""),
        _figure(group.area.value),
        _interval(group.area),
        f"{group.reached_count} of {len(group.seeds)}",
        number(round(group.reached)) if math.isfinite(group.reached) else "–",
    ]


def _figure(value: float) -> str:
    return number(float(f"{value:.4g}"))


def _interval(estimate: Estimate) -> str:
    if math.isnan(estimate.low):
        return "–"
    return f"{_figure(estimate.low)} … {_figure(estimate.high)}"


def echo_notes(found: Comparison, axis: str) -> None:
    """Print notes on thresholds, unequal budgets, single seeds and dropped points."""
    unit = UNITS[axis]
    how = "--threshold" if found.threshold_given else "90 % of the way from the lowest start to the best end"
    note(f"reached: {_figure(found.threshold)} or more ({how}); median of {unit} over seeds")
    note(f"area: mean height of the curve up to {number(round(found.area_end))} {unit}; final: last tenth")
    ends = {round(group.end) for group in found.groups}
    # Where one group begins at the end of another there is no budget in common.
    follows = any(round(float(group.band.x[0])) >= min(ends) for group in found.groups)
    if len(ends) > 1 and max(ends) > 1.05 * min(ends) and not follows:
        note(
            f"notice: groups end at {_words(sorted(ends))} {unit}; "
            f"--to {min(ends)} compares at an equal budget"
        )
    for group in found.groups:
        _note_group(group, unit)
    if found.references:
        levels = ", ".join(f"{escaped(line.label)} {_figure(line.value)}" for line in found.references)
        note(f"of the dataset: {levels}")
    if found.advice:
        note(f"advice: {escaped(found.advice)}")


def _note_group(group: ComparedGroup, unit: str) -> None:
    longest = max(seed.end for seed in group.seeds)
    if group.end < 0.95 * longest:
        short = min(group.seeds, key=lambda seed: seed.end)
        note(
            f"notice: {escaped(group.label)} is drawn to {number(round(group.end))} {unit}, where "
            f"{escaped(short.name)} ends; others reach {number(round(longest))} (--whole draws on)"
        )
    if len(group.seeds) == 1:
        note(f"notice: {escaped(group.label)} has one seed and therefore no interval")
    for seed in group.seeds:
        if seed.dropped:
            note(f"notice: {seed.dropped:,} points of {escaped(seed.name)} are NaN or infinite: dropped")


def _words(numbers: list[int]) -> str:
    return ", ".join(number(value) for value in numbers)


def as_plain(found: Comparison, metric: str, axis: str, settings: Settings) -> dict[str, Any]:
    return {
        "metric": metric,
        "axis": axis,
        "settings": asdict(settings),
        "threshold": found.threshold,
        "area_end": found.area_end,
        "references": [asdict(line) for line in found.references],
        "advice": found.advice,
        "groups": [_plain_group(group) for group in found.groups],
    }


def _plain_group(group: ComparedGroup) -> dict[str, Any]:
    band = group.band
    return {
        "label": group.label,
        "final_mean": group.final_mean,
        "final_std": group.final_std,
        "final_iqm": asdict(group.final_iqm),
        "area": asdict(group.area),
        "reached": group.reached,
        "reached_count": group.reached_count,
        "end": group.end,
        "seeds": [asdict(seed) for seed in group.seeds],
        "curve": {name: getattr(band, name).tolist() for name in ("x", "y", "low", "high", "runs")},
    }


def band_rows(found: Comparison) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Headings and rows of the curves, one row for each group and grid point."""
    rows = [
        (group.label, *row)
        for group in found.groups
        for row in zip(
            *(getattr(group.band, name).tolist() for name in ("x", "y", "low", "high", "runs")), strict=True
        )
    ]
    return ("group", "x", "value", "low", "high", "runs"), rows
