"""Comparison of groups of runs: bands to plot and figures for a table. Pure."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runspine.compare.curves import Curve, follow_each_other, grid_over, on_grid
from runspine.compare.efficiency import area, final, reached
from runspine.compare.groups import Group, Member
from runspine.compare.references import Reference, advise
from runspine.compare.statistics import STATISTICS, Interval, bootstrap, iqm, mean

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a comparison."""

    points: int = 100
    # Smoothing window as a share of the range.
    window: float = 0.05
    statistic: str = "iqm"
    confidence: float = 0.95
    samples: int = 2000
    seed: int = 0
    # Last share of the budget over which final performance is measured.
    share: float = 0.1
    threshold: float | None = None
    # Draw to the end of the longest run, over the remaining runs; otherwise to the end of the shortest.
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of a group, with its interval when it has one."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True, slots=True)
class Seed:
    """Figures of one run."""

    run_id: str
    name: str
    final: float
    area: float
    reached: float
    end: float
    points: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Band:
    """Curve of a group on the grid, with its interval and number of runs."""

    x: Values
    y: Values
    low: Values
    high: Values
    runs: Values


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    label: str
    band: Band
    seeds: tuple[Seed, ...]
    final_mean: float
    final_std: float
    final_iqm: Estimate
    area: Estimate
    # Median over seeds; infinity when half of them or more never reach the threshold.
    reached: float
    reached_count: int
    end: float


@dataclass(frozen=True, slots=True)
class Comparison:
    groups: tuple[ComparedGroup, ...]
    threshold: float
    # Whether the threshold was given, or taken from the curves.
    threshold_given: bool
    # End of the range of areas, the same for all groups.
    area_end: float
    # Horizontal lines of the datasets, and one sentence on what follows.
    references: tuple[Reference, ...] = ()
    advice: str = ""


def compare(
    groups: Sequence[Group],
    curves: Mapping[str, Curve],
    settings: Settings,
    lines: Sequence[Reference] = (),
) -> Comparison:
    """Compare groups; `curves` by run id, each with at least one point; `lines` to compare them with."""
    every = [curves[member.run_id] for group in groups for member in group.members]
    grid = grid_over(every, settings.points)
    ends = [_end([curves[m.run_id] for m in group.members], settings.whole) for group in groups]
    common = max(min(curve.end for curve in every), float(grid[0]))
    if follow_each_other(every):
        common = float(grid[-1])  # they have no range in common: each area is over its own
    width = settings.window * float(grid[-1] - grid[0])
    drawn = [np.stack([on_grid(curves[m.run_id], grid, width) for m in group.members]) for group in groups]
    bands = [
        _band(group, grid, line, max(curves[m.run_id].start for m in group.members), end, settings)
        for group, line, end in zip(groups, drawn, ends, strict=True)
    ]
    threshold = settings.threshold
    if threshold is None:
        threshold = _default_threshold(bands, groups, curves, ends, settings)
    compared = [
        _compared(group, curves, grid, line, band, end, common, threshold, settings)
        for group, line, band, end in zip(groups, drawn, bands, ends, strict=True)
    ]
    finals = [(group.stage, each.final_iqm) for group, each in zip(groups, compared, strict=True)]
    return Comparison(
        groups=tuple(compared),
        threshold=threshold,
        threshold_given=settings.threshold is not None,
        area_end=common,
        references=tuple(lines),
        advice=advise(finals, lines),
    )


def _end(curves: Sequence[Curve], whole: bool) -> float:
    ends = [curve.end for curve in curves]
    return max(ends) if whole else min(ends)


def _generator(group: Group, settings: Settings, use: str) -> np.random.Generator:
    """A generator for each group, so that another group does not change the intervals."""
    return np.random.default_rng([settings.seed, zlib.crc32(f"{use} {group.label}".encode())])


def _strata(group: Group) -> list[int]:
    envs = sorted({member.env for member in group.members})
    return [envs.index(member.env) for member in group.members]


def _band(group: Group, grid: Values, lines: Values, start: float, end: float, settings: Settings) -> Band:
    inside = (grid >= start) & (grid <= end)
    if not inside.any():
        # The nearest grid point that has values, or the first one.
        there = np.flatnonzero(np.isfinite(lines).any(axis=0))
        inside = np.arange(len(grid)) == (there[0] if len(there) else 0)
    x, lines = grid[inside], lines[:, inside]
    statistic = STATISTICS[settings.statistic]
    runs = np.isfinite(lines).sum(axis=0)
    y, low, high = (np.full(len(x), math.nan) for _ in range(3))
    # Ranges with the same set of runs; one when all reach the end.
    for there in np.unique(np.isfinite(lines), axis=1).T:
        places = (np.isfinite(lines) == there[:, None]).all(axis=0)
        if not there.any():
            continue
        part = lines[there][:, places]
        strata = [s for s, is_there in zip(_strata(group), there.tolist(), strict=True) if is_there]
        y[places] = statistic(part)
        interval = _interval(group, part, strata, settings, statistic, "band")
        if interval is not None:
            low[places], high[places] = interval
    return Band(x, y, low, high, runs)


def _interval(
    group: Group, values: Values, strata: Sequence[int], settings: Settings, statistic: Any, use: str
) -> Interval | None:
    return bootstrap(
        values,
        strata,
        statistic,
        _generator(group, settings, use),
        samples=settings.samples,
        confidence=settings.confidence,
    )


def _estimate(group: Group, values: Values, settings: Settings, use: str) -> Estimate:
    column = values[:, None]
    interval = _interval(group, column, _strata(group), settings, iqm, use)
    value = float(iqm(column)[0])
    if interval is None:
        return Estimate(value)
    return Estimate(value, float(interval.low[0]), float(interval.high[0]))


def _default_threshold(
    bands: Sequence[Band],
    groups: Sequence[Group],
    curves: Mapping[str, Curve],
    ends: Sequence[float],
    settings: Settings,
) -> float:
    """90 % of the way from the lowest start to the best end."""
    finals = [
        float(iqm(np.array([[final(curves[m.run_id], end, settings.share)] for m in group.members]))[0])
        for group, end in zip(groups, ends, strict=True)
    ]
    start = min(float(band.y[0]) for band in bands)
    return start + 0.9 * (max(finals) - start)


def _compared(
    group: Group,
    curves: Mapping[str, Curve],
    grid: Values,
    lines: Values,
    band: Band,
    end: float,
    common: float,
    threshold: float,
    settings: Settings,
) -> ComparedGroup:
    seeds = [
        _seed(member, curves[member.run_id], grid, line, end, common, threshold, settings.share)
        for member, line in zip(group.members, lines, strict=True)
    ]
    finals = np.array([seed.final for seed in seeds])
    times = np.array([seed.reached for seed in seeds])
    return ComparedGroup(
        label=group.label,
        band=band,
        seeds=tuple(seeds),
        final_mean=float(mean(finals[:, None])[0]),
        final_std=float(finals.std(ddof=1)) if len(finals) > 1 else math.nan,
        final_iqm=_estimate(group, finals, settings, "final"),
        area=_estimate(group, np.array([seed.area for seed in seeds]), settings, "area"),
        reached=_median(times),
        reached_count=int(np.isfinite(times).sum()),
        end=end,
    )


def _seed(
    member: Member,
    curve: Curve,
    grid: Values,
    line: Values,
    end: float,
    common: float,
    threshold: float,
    share: float,
) -> Seed:
    shared = grid <= common
    own = min(end, curve.end)
    there = (grid <= own) & np.isfinite(line)
    return Seed(
        run_id=member.run_id,
        name=member.name,
        final=final(curve, own, share),
        area=area(grid[shared], line[shared]),
        reached=reached(grid[there], line[there], threshold),
        end=curve.end,
        points=len(curve),
        dropped=curve.dropped,
    )


def _median(times: Values) -> float:
    """Median; seeds that never reach the threshold count as infinity."""
    ordered = np.sort(times)
    middle = ordered[[(len(ordered) - 1) // 2, len(ordered) // 2]]
    return float(middle.mean()) if np.isfinite(middle).all() else math.inf
