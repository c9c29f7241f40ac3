"""The batches of an evaluation added up, for the run's own line. Pure."""

from __future__ import annotations

from runspine.scores import Running
from runspine.wire.v1.facts_pb2 import EvaluationSummary, Progress
from runspine.wire.v1.telemetry_pb2 import Score


class Scoring:
    """All batches of the policy that was scored last; one of another policy begins anew."""

    def __init__(self) -> None:
        self._of: tuple[str, str, bool] | None = None
        self._running = Running()

    def add(self, score: Score) -> None:
        of = (score.digest, score.env_id, score.deterministic)
        if of != self._of:
            self._of, self._running = of, Running()
        self._running.add(score.returns)

    def fill(self, progress: Progress) -> None:
        """Say so in the run's progress, once there is something to say."""
        if self._of is None:
            return
        digest, env_id, deterministic = self._of
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
