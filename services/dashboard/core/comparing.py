"""Groups of runs over their seeds as curves and a table, from figures that were fetched. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from runspine.cli.selection import member_of
from runspine.compare.comparison import Compared, Comparison, Settings, compare
from runspine.compare.curves import Curve, curve_of
from runspine.compare.groups import grouped
from runspine.errors import Invalid
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.telemetry_pb2 import Series
from services.dashboard.core.runrow import finite

STATISTICS = ("iqm", "mean", "median")
# Fewer than the command line draws: the page asks again and again while runs go on.
SAMPLES = 400


def compared(
    runs: Sequence[Run], series: Mapping[str, Series], *, statistic: str, by: Sequence[str], each: bool
) -> Comparison:
    """`each`: every run is a group of its own. Raises Invalid when no run has a point."""
    curves = {run_id: curve_of(one.x, one.y) for run_id, one in series.items()}
    there: dict[str, Curve] = {run_id: curve for run_id, curve in curves.items() if len(curve)}
    members = [member_of(run) for run in runs if run.id in there]
    if not members:
        raise Invalid("none of these runs has points of this metric")
    if statistic not in STATISTICS:
        raise Invalid(f"stat {statistic!r} is none of {', '.join(STATISTICS)}")
    groups = grouped(members, ["name"] if each else by)
    return compare(groups, there, Settings(points=200, statistic=statistic, samples=SAMPLES))


def as_curves(found: Comparison) -> list[dict[str, Any]]:
    """As the chart takes them: the interval is the band."""
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
    ]


def as_rows(found: Comparison) -> list[dict[str, str]]:
    """The table below the chart, the best end first."""
    ordered = sorted(found.groups, key=lambda group: -_number(group.final_iqm.value))
    return [_row(group, found) for group in ordered]


def _row(group: Compared, found: Comparison) -> dict[str, str]:
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
    return "–" if finite(value) is None else f"{value:.4g}"


def _number(value: float) -> float:
    return value if math.isfinite(value) else -math.inf


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
