"""Which directories of ended runs are removed, and by which rule. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HOUR_MICROS = 3_600_000_000
MIB = 1 << 20
# Directories removed in one round; the next round continues.
MAX_REMOVALS = 50


@dataclass(frozen=True, slots=True)
class EndedFolder:
    """The directory of a run that has ended and of which everything is stored."""

    run_id: str
    ended_at: int
    size: int


@dataclass(frozen=True, slots=True)
class KeepRules:
    """How long, and how many MiB of directories of ended runs are kept."""

    hours: float
    mib: float


def planned_removals(
    folders: Sequence[EndedFolder], rules: KeepRules, now: int
) -> list[tuple[EndedFolder, str]]:
    """The directories to remove now with the rule of each, first the run that ended first."""
    left = sum(folder.size for folder in folders)
    found: list[tuple[EndedFolder, str]] = []
    for folder in sorted(folders, key=lambda each: (each.ended_at, each.run_id)):
        if now - folder.ended_at >= rules.hours * HOUR_MICROS:
            rule = f"keep_run_hours={rules.hours:g}"
        elif left > rules.mib * MIB:
            rule = f"keep_runs_mib={rules.mib:g}"
        else:
            break
        found.append((folder, rule))
        left -= folder.size
        if len(found) == MAX_REMOVALS:
            break
    return found
