"""All batches of an evaluation as one result. Pure."""

from __future__ import annotations

from typing import Any

from runspine.domain.scores import figures_of, interval_of
from runspine.wire.v1.telemetry_pb2 import Score


def overall(scores: list[Score]) -> dict[str, Any] | None:
    """Figures over all batches; None when there is none."""
    returns = [value for score in scores for value in score.returns]
    if not returns:
        return None
    figures, interval = figures_of(returns), interval_of(returns)
    lengths = [length for score in scores for length in score.lengths]
    return {
        **figures._asdict(),
        "episodes": len(returns),
        "batches": len(scores),
        "interval_95": [interval.low, interval.high],
        "mean_length": sum(lengths) / len(lengths) if lengths else None,
        "seconds": sum(score.seconds for score in scores),
    }
