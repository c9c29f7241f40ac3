"""Comparisons of our figures with those of peers and with limits of the machine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from runspine.bench.kit.figures import Figure


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """A comparison. Ratios are relative to the first figure whose `who` begins with `base`."""

    group: str
    title: str
    unit: str
    about: str
    base: str = "runspine"
    more_is_better: bool = False


COMPARISONS = (
    PeerComparison(
        "kept", "Steps kept each second", "steps/s",
        "From the first step until the tool has closed its files; ours until it is archived and synced, as a "
        "whole step (action, reward, observation, flags) and as the one scalar that the others keep.",
        base="runspine, one scalar", more_is_better=True,
    ),
    PeerComparison(
        "cpu", "CPU of the trainer for each step logged", "µs",
        "In the trainer's process, its threads included.", base="runspine, run.log",
    ),
    PeerComparison(
        "rest", "Bytes on the disk for each step", "B",
        "Ours with four floats of observation, action, reward, flags and time; the others one scalar and its "
        "step.",
    ),
    PeerComparison(
        "done", "Submit → done, a job that does nothing", "ms", "One after the other, nothing else running."
    ),
    PeerComparison(
        "admissions", "Submissions each second", "runs/s",
        "Until the call returns: ours is synced to disk then, Ray's is in the memory of its head.",
        more_is_better=True,
    ),
    PeerComparison(
        "open", "Opening a long series", "s",
        "From the start of a process that has never seen it until the chart has the last point.",
    ),
    PeerComparison(
        "facts", "Facts of 1 KB on the disk each second", "/s",
        "Each is synced before it is acknowledged. Ours are chained, numbered and refused when stale.",
        more_is_better=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """The figures of one comparison, the best first."""

    comparison: PeerComparison
    title: str
    figures: list[Figure]
    missing: list[Figure]

    @property
    def base(self) -> Figure | None:
        return next((f for f in self.figures if f.who.startswith(self.comparison.base)), None)

    def ratio(self, figure: Figure) -> float:
        return figure.value / self.base.value if self.base else math.nan


def compared(figures: Iterable[Figure]) -> list[ComparedFigure]:
    """Comparisons with at least one figure."""
    every = list(figures)
    found = []
    for comparison in COMPARISONS:
        group, title = comparison.group, comparison.title
        if group == "open":
            group = _longest(every)
            title += f": {int(group.partition(' ')[2] or 0):,} points"
        those = [f for f in every if f.group == group]
        known = [f for f in those if math.isfinite(f.value)]
        known.sort(key=lambda f: f.value, reverse=comparison.more_is_better)
        if known:
            found.append(ComparedFigure(comparison, title, known, [f for f in those if f not in known]))
    return found


def _longest(figures: list[Figure]) -> str:
    """The longest series that was opened by both."""
    sizes = [int(f.group[5:]) for f in figures if f.group.startswith("open ") and f.who != "runspine"]
    return f"open {max(sizes)}" if sizes else "open"
