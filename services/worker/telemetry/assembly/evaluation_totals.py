"""Totals over the batches of an evaluation, for the progress of its run. Pure."""

from __future__ import annotations

from runspine.domain.scores import Running
from runspine.wire.v1.facts_pb2 import EvaluationSummary, Progress
from runspine.wire.v1.telemetry_pb2 import Score


class EvaluationTotals:
    """Totals of the policy that was scored last; a score of another policy resets them."""

    def __init__(self) -> None:
        self._subject: tuple[str, str, bool] | None = None
        self._running = Running()

    def add(self, score: Score) -> None:
        """Add one batch."""
        subject = (score.digest, score.env_id, score.deterministic)
        if subject != self._subject:
            self._subject, self._running = subject, Running()
        self._running.add(score.returns)

    def fill(self, progress: Progress) -> None:
        """Add the totals to a progress message, once there are any."""
        if self._subject is None:
            return
        digest, env_id, deterministic = self._subject
        running = self._running
        progress.evaluation.CopyFrom(
            EvaluationSummary(
                digest=digest,
                env=env_id,
                deterministic=deterministic,
                batches=running.batches,
                episodes=running.count,
                mean=running.mean,
                std=running.std,
                minimum=running.minimum,
                maximum=running.maximum,
            )
        )
