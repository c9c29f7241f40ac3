"""Series of an evaluation: the figures of each batch, at the number of the batch from 1. Pure."""

from __future__ import annotations

from runspine.wire.v1.telemetry_pb2 import Score

EVALUATION_SERIES = ("eval/mean", "eval/std", "eval/min", "eval/max", "eval/median", "eval/duration")


def batch_points(score: Score) -> dict[str, float]:
    """One value for each series; the duration is in seconds."""
    values = (score.mean, score.std, score.minimum, score.maximum, score.median, score.seconds)
    return dict(zip(EVALUATION_SERIES, values, strict=True))
