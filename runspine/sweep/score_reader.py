"""Reads scores of runs from the telemetry service when they can have changed."""

from __future__ import annotations

from runspine.domain.run import ENDED
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.spec.nearest import not_accepted
from runspine.sweep.plan import SweepPlan
from runspine.sweep.score import Score, score
from runspine.wire.v1.run_pb2 import COMPLETED, Run

MAX_POINTS = 10_000


class ScoreReader:
    """Scores by run id. An ended run is queried once, a running one at each rung."""

    def __init__(self, reader: TelemetryClient, plan: SweepPlan) -> None:
        self._reader = reader
        self._plan = plan
        self.known: dict[str, Score] = {}
        self._final: set[str] = set()

    def update(self, run: Run, step: int) -> None:
        """Query the score if needed; `step` is the reported progress of the run."""
        if run.id in self._final:
            return
        ended = run.phase in ENDED
        if ended or self._at_a_rung(run, step):
            self.known[run.id] = self._query(run)
            if ended:
                self._final.add(run.id)

    def _at_a_rung(self, run: Run, step: int) -> bool:
        plan = self._plan
        if plan.pruner == "none" or not plan.budget:
            return False
        passed = len(self.known[run.id].rungs) if run.id in self.known else 0
        return step >= plan.budget * (passed + 1) / plan.rungs

    def _query(self, run: Run) -> Score:
        plan = self._plan
        [curve] = self._reader.curves(run.id, [plan.metric], max_points=MAX_POINTS)
        found = score(
            curve.x, curve.y, how=plan.value, best=plan.direction, budget=plan.budget, rungs=plan.rungs,
            ended=run.phase == COMPLETED,
        )  # fmt: skip
        if found.value is None and not curve.x and run.phase == COMPLETED:
            return Score(problem=self._why_none(run))
        return found

    def _why_none(self, run: Run) -> str:
        known = [info.name for info in self._reader.series(run.id)]
        if not known:
            return "it has no series: no episode has ended and no metric was logged"
        return f"it has no {self._plan.metric}: {not_accepted(self._plan.metric, known, limit=10)}"
