"""Superseded telemetry. Pure.

When an attempt resumes at a step, everything that earlier attempts recorded after that step is
superseded: it stays in the archive and is left out of answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspine.services.telemetry.core import steps
from runspine.services.telemetry.core.rows import Arrival, batch_kind, placed_steps
from runspine.wire.v1.run_pb2 import AttemptHistory
from runspine.wire.v1.telemetry_pb2 import Batch, EpisodeBatch, MetricBatch, MetricBlock, StepBatch

# The largest counter that is visible, by attempt. Attempts without a cutoff are visible whole.
Cutoffs = Mapping[int, int]
NOTHING = -1


def cutoffs(run_id: str, history: AttemptHistory) -> dict[int, int]:
    """Cutoffs of a run. An attempt that starts from step 0 or from another run's weights supersedes all
    before it."""
    found: dict[int, int] = {}
    lowest: int | None = None
    for attempt in sorted(history.attempts, key=lambda a: a.number, reverse=True):
        if lowest is not None:
            found[attempt.number] = lowest
        resumed = attempt.HasField("resumed_from") and attempt.resumed_from.run_id == run_id
        start = int(attempt.resumed_from.step) if resumed else NOTHING
        lowest = start if lowest is None else min(lowest, start)
    return found


def visible_part(arrival: Arrival, cutoffs: Cutoffs) -> Arrival | None:
    """The batch without its superseded part; None when nothing is left. Logs are never superseded."""
    cutoff = cutoffs.get(arrival.batch.attempt)
    if cutoff is None:
        return arrival
    match batch_kind(arrival.batch):
        case "steps":
            return _steps(arrival, cutoffs)
        case "episodes":
            kept = [e for e in arrival.batch.episodes.episodes if e.global_step <= cutoff]
            return _with(arrival, episodes=EpisodeBatch(episodes=kept)) if kept else None
        case "metrics":
            blocks = [b for block in arrival.batch.metrics.blocks if (b := _points(block, cutoff)).values]
            return _with(arrival, metrics=MetricBatch(blocks=blocks)) if blocks else None
        case "evaluations":
            # An evaluation whose worker was lost starts again.
            return arrival if cutoff >= 0 else None
    return arrival


def _points(block: MetricBlock, cutoff: int) -> MetricBlock:
    if not block.steps:
        return block if cutoff >= 0 else MetricBlock()
    which = [i for i, step in enumerate(block.steps) if step <= cutoff]
    return MetricBlock(
        name=block.name,
        values=[block.values[i] for i in which],
        steps=[block.steps[i] for i in which],
        at=[block.at[i] for i in which] if block.at else [],
    )


def _steps(arrival: Arrival, cutoffs: Cutoffs) -> Arrival | None:
    tables = steps.encode(placed_steps([arrival]), {})
    placed = [item for table in tables.values() for item in steps.decode(steps.visible_steps(table, cutoffs))]
    placed.sort(key=lambda item: item.order)
    return _with(arrival, steps=StepBatch(blocks=[item.block for item in placed])) if placed else None


def _with(arrival: Arrival, **kind: Any) -> Arrival:
    batch = arrival.batch
    return Arrival(
        arrival.position, Batch(run_id=batch.run_id, attempt=batch.attempt, number=batch.number, **kind)
    )
