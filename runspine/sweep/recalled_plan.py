"""Reconstruct a sweep plan from its runs, without the sweep file. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runspine.spec.plain import to_plain
from runspine.spec.strict_yaml import MapNode
from runspine.sweep.plan import SweepPlan
from runspine.wire.v1.run_pb2 import Run

# Fields that differ from trial to trial without being searched.
_OWN = ("seed", "labels", "name")


def plan_of_runs(sweep_id: str, runs: Sequence[Run]) -> SweepPlan:
    """Partial plan from the labels of runs: enough to fold trials, not to continue the sweep."""
    labels = runs[0].spec.labels
    numbers = {run.spec.labels.get("trial", "") for run in runs}
    return SweepPlan(
        id=sweep_id,
        base=MapNode({}, ""),
        folder=Path(),
        source="",
        axes=(),
        metric=labels.get("sweep.metric", "episode/return"),
        direction=labels.get("sweep.direction", "maximize"),
        value=labels.get("sweep.value", "final"),
        trials=len(numbers),
        parallel=1,
        seeds=tuple(sorted({run.spec.seed for run in runs})),
        sampler="",
        # Any value but none, so that running trials are scored by their rungs.
        pruner="recalled",
        startup=1,
        rungs=10,
        budget=runs[0].spec.total_steps,
    )


def differing_fields(runs: Mapping[int, Run]) -> dict[int, dict[str, Any]]:
    """Fields whose values differ between trials, by trial."""
    leaves = {number: dict(_leaves(to_plain(run.spec, full=False), "")) for number, run in runs.items()}
    paths = sorted({path for found in leaves.values() for path in found})
    varied = [path for path in paths if len({repr(found.get(path)) for found in leaves.values()}) > 1]
    return {number: {path: found.get(path) for path in varied} for number, found in leaves.items()}


def _leaves(plain: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in plain.items():
        if not prefix and key in _OWN:
            continue
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found
