"""A run as one row of the table. Pure; plain values only, because they travel to a browser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from runspine.plain import enum_word
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Phase, Run

MILLISECOND = 1000


def run_row(run: Run, progress: Progress, returns: Sequence[float]) -> dict[str, Any]:
    """What the table shows; times in milliseconds, which is what browsers count in."""
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
        "seed": run.spec.seed if run.spec.HasField("seed") else 1,
        "step": step,
        "total": total,
        "part": min(1.0, step / total) if total else None,
        "last_return": finite(progress.mean_return) if progress.HasField("mean_return") else None,
        "returns": [finite(value) for value in returns],
        "sps": finite(progress.steps_per_second),
        "submitted": run.submitted_at // MILLISECOND,
        "ended": run.ended_at // MILLISECOND,
        "worker": run.worker_id,
        "attempt": run.attempt,
        "priority": run.priority,
        "project": run.spec.project,
        # Pairs, never a map: the page's components evaluate values whose key begins with a colon.
        "labels": [[key, value] for key, value in sorted(run.labels.items())],
    }


def finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None
