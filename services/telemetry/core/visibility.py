"""What a later attempt has taken the place of. Pure.

An attempt that resumes at a step makes everything that earlier attempts did after that step a past
that did not happen: it stays in the archive and is left out of answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspine.wire.v1.run_pb2 import AttemptHistory
from runspine.wire.v1.telemetry_pb2 import Batch, EpisodeBatch, MetricBatch, MetricBlock, StepBatch
from services.telemetry.core import steps
from services.telemetry.core.rows import Arrival, kind_of, placed_steps

# Largest counter that is still shown, by attempt; attempts that are not named are shown whole.
Cutoffs = Mapping[int, int]
NOTHING = -1


def cutoffs(run_id: str, history: AttemptHistory) -> dict[int, int]:
    """An attempt that began anew, or from another run's weights, leaves nothing of those before it."""
    found: dict[int, int] = {}
    lowest: int | None = None
    for attempt in sorted(history.attempts, key=lambda a: a.number, reverse=True):
        if lowest is not None:
            found[attempt.number] = lowest
        resumed = attempt.HasField("resumed_from") and attempt.resumed_from.run_id == run_id
        start = int(attempt.resumed_from.step) if resumed else NOTHING
        lowest = start if lowest is None else min(lowest, start)
    return found


def shown(arrival: Arrival, cutoffs: Cutoffs) -> Arrival | None:
    """The batch without what is not shown any more; None when nothing is left. Logs are always shown."""
    cutoff = cutoffs.get(arrival.batch.attempt)
    if cutoff is None:
        return arrival
    match kind_of(arrival.batch):
        case "steps":
            return _steps(arrival, cutoffs)
        case "episodes":
            kept = [e for e in arrival.batch.episodes.episodes if e.global_step <= cutoff]
            return _with(arrival, episodes=EpisodeBatch(episodes=kept)) if kept else None
        case "metrics":
            blocks = [b for block in arrival.batch.metrics.blocks if (b := _points(block, cutoff)).values]
            return _with(arrival, metrics=MetricBatch(blocks=blocks)) if blocks else None
        case "evaluations":
            # An evaluation that was lost with its worker begins anew.
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
    placed = [item for table in tables.values() for item in steps.decode(steps.shown(table, cutoffs))]
    placed.sort(key=lambda item: item.order)
    return _with(arrival, steps=StepBatch(blocks=[item.block for item in placed])) if placed else None


def _with(arrival: Arrival, **kind: Any) -> Arrival:
    batch = arrival.batch
    return Arrival(
        arrival.position, Batch(run_id=batch.run_id, attempt=batch.attempt, number=batch.number, **kind)
    )
