"""A run as one row of the runs table, in plain JSON values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from runspine.domain.defaults import DEFAULT_SEED
from runspine.spec.plain import enum_word
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Phase, Run

MICROSECONDS_PER_MILLISECOND = 1000


def run_row(run: Run, progress: Progress, returns: Sequence[float]) -> dict[str, Any]:
    """The row's columns; times in milliseconds, as in JavaScript."""
    step = progress.step or run.counts.steps
    total = run.spec.total_steps or progress.total_steps
    return {
        "id": run.id,
        "name": run.name,
        "phase": enum_word(Phase.DESCRIPTOR, run.phase),
        "reason": run.reason,
        "env": run.spec.env,
        "algo": run.spec.algo,
        "runner": run.spec.runner,
        "seed": run.spec.seed if run.spec.HasField("seed") else DEFAULT_SEED,
        "step": step,
        "total": total,
        "part": min(1.0, step / total) if total else None,
        "last_return": finite_or_none(progress.mean_return) if progress.HasField("mean_return") else None,
        "returns": [finite_or_none(value) for value in returns],
        "sps": finite_or_none(progress.steps_per_second),
        "submitted": run.submitted_at // MICROSECONDS_PER_MILLISECOND,
        "ended": run.ended_at // MICROSECONDS_PER_MILLISECOND,
        "worker": run.worker_id,
        "attempt": run.attempt,
        "priority": run.priority,
        "project": run.spec.project,
        # Pairs instead of a map: NiceGUI's components evaluate values whose key begins with a colon.
        "labels": [[key, value] for key, value in sorted(run.labels.items())],
    }


def finite_or_none(value: float) -> float | None:
    """The value, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
