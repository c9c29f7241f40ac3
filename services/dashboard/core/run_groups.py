"""Runs grouped by env, algorithm, project or runner, with counts and best return. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runspine.domain.run import ACTIVE
from runspine.services.dashboard.core.run_row import finite_or_none
from runspine.services.dashboard.core.run_table import RunTableEntry
from runspine.wire.v1.run_pb2 import FAILED, Run

KEYS = ("env", "algo", "env · algo", "project", "runner")
MAX_GROUPS = 60


@dataclass(slots=True)
class RunGroup:
    """Counts and best return of the runs with one key."""

    name: str
    runs: int = 0
    active: int = 0
    failed: int = 0
    best: float | None = None


def group_key(run: Run, by: str) -> str:
    spec = run.spec
    if by == "env · algo":
        return f"{spec.env or '–'} · {spec.algo or '–'}"
    return (
        str({"env": spec.env, "algo": spec.algo, "project": spec.project, "runner": spec.runner}[by]) or "–"
    )


def group_runs(entries: Iterable[RunTableEntry], by: str) -> list[RunGroup]:
    """Groups by number of runs, the largest first, at most MAX_GROUPS."""
    found: dict[str, RunGroup] = {}
    for entry in entries:
        name = group_key(entry.run, by)
        group = found.setdefault(name, RunGroup(name))
        group.runs += 1
        group.active += entry.run.phase in ACTIVE
        group.failed += entry.run.phase == FAILED
        if entry.progress.HasField("mean_return"):
            value = finite_or_none(entry.progress.mean_return)
            if value is not None and (group.best is None or value > group.best):
                group.best = value
    return sorted(found.values(), key=lambda group: (-group.runs, group.name))[:MAX_GROUPS]
