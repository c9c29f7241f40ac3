"""Groups of runs over their seeds as curves and table rows, computed from fetched series. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runspine.compare.comparison import ComparedGroup, Comparison, Settings, compare
from runspine.compare.curves import Curve, curve_of, seconds_since
from runspine.compare.groups import group_runs, member_of
from runspine.compare.references import Reference
from runspine.domain.run import ENDED
from runspine.errors import InvalidError
from runspine.services.dashboard.core.run_row import finite_or_none
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.telemetry_pb2 import Series

STATISTICS = ("iqm", "mean", "median")
# Fewer than the command line uses: the page repeats the comparison while runs are active. Of ended runs both
# compute the same.
ACTIVE_BOOTSTRAP_SAMPLES = 400


def compare_runs(
    runs: Sequence[Run],
    series: Mapping[str, Series],
    *,
    axis: str,
    statistic: str,
    by: Sequence[str],
    each: bool,
    lines: Sequence[Reference] = (),
) -> Comparison:
    """Compare runs in groups; with `each`, every run is its own group.

    On the axis `time`, x is seconds since the start of each run.

    Raises InvalidError when no run has points of the metric or the statistic is unknown.
    """
    curves = {run.id: _curve(run, series[run.id], axis) for run in runs if run.id in series}
    nonempty: dict[str, Curve] = {run_id: curve for run_id, curve in curves.items() if len(curve)}
    members = [member_of(run) for run in runs if run.id in nonempty]
    if not members:
        raise InvalidError("none of these runs has points of this metric")
    if statistic not in STATISTICS:
        raise InvalidError(f"stat {statistic!r} is not one of {', '.join(STATISTICS)}")
    groups = group_runs(members, ["name"] if each else by)
    settings = Settings(statistic=statistic)
    if any(run.phase not in ENDED for run in runs):
        settings = replace(settings, samples=ACTIVE_BOOTSTRAP_SAMPLES)
    return compare(groups, nonempty, settings, lines)


def _curve(run: Run, series: Series, axis: str) -> Curve:
    x = seconds_since(run.started_at, series.x) if axis == "time" else series.x
    return curve_of(x, series.y)


def as_curves(found: Comparison) -> list[dict[str, Any]]:
    """Curves as the chart takes them, with the interval as the band; then the lines of datasets."""
    return [
        {
            "name": f"{group.label} ({_runs(len(group.seeds))})",
            "exact": False,
            "points": sum(seed.points for seed in group.seeds),
            "x": group.band.x.tolist(),
            "y": group.band.y.tolist(),
            "low": group.band.low.tolist(),
            "high": group.band.high.tolist(),
        }
        for group in found.groups
    ] + _reference_curves(found)


def _reference_curves(found: Comparison) -> list[dict[str, Any]]:
    """Horizontal lines over the whole range."""
    ends = [float(end) for group in found.groups for end in (group.band.x[0], group.band.x[-1])]
    return [
        {
            "name": f"{line.label} {_short(line.value)}",
            "exact": True,
            "reference": True,
            "points": 0,
            "x": [min(ends), max(ends)],
            "y": [line.value, line.value],
            "low": [],
            "high": [],
        }
        for line in found.references
    ]


def as_rows(found: Comparison) -> list[dict[str, str]]:
    """Rows of the table below the chart, the best final value first."""
    ordered = sorted(found.groups, key=lambda group: -_number(group.final_iqm.value))
    return [_row(group, found) for group in ordered]


def _row(group: ComparedGroup, found: Comparison) -> dict[str, str]:
    low, high = group.final_iqm.low, group.final_iqm.high
    interval = f" [{_short(low)}, {_short(high)}]" if math.isfinite(low) else ""
    reached = f"{group.reached:,.0f}" if math.isfinite(group.reached) else "never"
    return {
        "group": group.label,
        "runs": str(len(group.seeds)),
        "final": f"{_short(group.final_iqm.value)}{interval}",
        "mean": _short(group.final_mean)
        + (f" ± {_short(group.final_std)}" if math.isfinite(group.final_std) else ""),
        "area": _short(group.area.value),
        "reached": f"{reached} ({group.reached_count}/{len(group.seeds)} reach {_short(found.threshold)})",
    }


def _short(value: float) -> str:
    return "–" if finite_or_none(value) is None else f"{value:.4g}"


def _number(value: float) -> float:
    return value if math.isfinite(value) else -math.inf


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
