"""Histories and frames: points of one run or of many as a table or a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runspine.api.core import ApiCore
from runspine.api.filters import invalid
from runspine.api.tables import Format, as_format, points_schema, points_table, wide_table
from runspine.spec.nearest import not_accepted

MAX_SAMPLES = 100_000
CARD_SERIES = ("episode/return", "charts/episodic_return", "rollout/ep_rew_mean")
CARD_POINTS = 120


@dataclass(frozen=True, slots=True)
class Shape:
    """Which points are read, and how they are returned."""

    samples: int | None = None
    times: bool = False
    wide: bool = False
    format: Format = "arrow"

    def __post_init__(self) -> None:
        if self.samples is not None and not 1 <= self.samples <= MAX_SAMPLES:
            raise invalid("samples", f"{self.samples} is out of range: 1 to {MAX_SAMPLES:,}, or None for all")
        if self.format not in ("arrow", "pandas", "polars"):
            raise invalid("format", not_accepted(str(self.format), ["arrow", "pandas", "polars"]))
        if self.times and self.samples is not None:
            raise invalid("times", "only exact points have times: leave out samples")
        if self.times and self.wide:
            raise invalid("times", "a wide table has one row for each step and no times")


def metric_names(metrics: str | Sequence[str] | None) -> list[str]:
    names = [metrics] if isinstance(metrics, str) else list(metrics or ())
    for name in names:
        if not isinstance(name, str):
            raise invalid("metrics", f"expected names, got {name!r:.60}")
    return list(dict.fromkeys(names))


async def frame(core: ApiCore, runs: Sequence[str], metrics: Sequence[str], shape: Shape) -> Any:
    """Points of several runs. Raises InvalidError for a metric that none of them has."""
    found = await core.chunks_of(runs, metrics, shape.samples, shape.times)
    await _refuse_unknown(core, found, metrics)
    if metrics:
        found = {
            run: {name: points[name] for name in metrics if name in points} for run, points in found.items()
        }
    schema = points_schema(times=shape.times, sampled=shape.samples is not None)
    table = points_table(found, schema)
    if shape.wide:
        names = metrics or sorted({name for points in found.values() for name in points})
        table = wide_table(table, names)
    return as_format(table, shape.format)


async def history(core: ApiCore, run_id: str, metrics: Sequence[str], shape: Shape) -> Any:
    """Points of one run: as `frame`, without the column that names the run."""
    plain = Shape(shape.samples, shape.times, shape.wide)
    table = await frame(core, [run_id], metrics, plain)
    return as_format(table.drop_columns(["run"]), shape.format)


async def _refuse_unknown(
    core: ApiCore, found: Mapping[str, Mapping[str, Any]], metrics: Sequence[str]
) -> None:
    unknown = [name for name in metrics if not any(name in points for points in found.values())]
    if not unknown or not found:
        return
    known = {info.name for run_id in list(found)[:5] for info in await core.series(run_id)}
    raise invalid("metrics", not_accepted(unknown[0], known, limit=30))


async def card_curve(core: ApiCore, run_id: str) -> tuple[str, list[float], list[float]]:
    """Name and points of the curve that a card shows; empty when the run has no series."""
    names = [info.name for info in await core.series(run_id)]
    chosen = next((name for name in CARD_SERIES if name in names), names[0] if names else "")
    if not chosen:
        return "", [], []
    for curve in await core.curves(run_id, [chosen], CARD_POINTS):
        return chosen, list(curve.x), list(curve.y)
    return "", [], []
