"""Scores of runs, asked of the telemetry service when there is something new to know."""

from __future__ import annotations

from runspine.nearest import not_accepted
from runspine.sweep.plan import Plan
from runspine.sweep.score import Score, score
from runspine.sweep.trials import ENDED
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1.run_pb2 import COMPLETED, Run

POINTS = 10_000


class Scores:
    """By run id. A run that has ended is asked for once, one under way at each rung."""

    def __init__(self, reader: TelemetryReader, plan: Plan) -> None:
        self._reader = reader
        self._plan = plan
        self.known: dict[str, Score] = {}
        self._final: set[str] = set()

    def look(self, run: Run, step: int) -> None:
        """`step` is how far the run has come by its own word."""
        if run.id in self._final:
            return
        ended = run.phase in ENDED
        if ended or self._at_a_rung(run, step):
            self.known[run.id] = self._ask(run)
            if ended:
                self._final.add(run.id)

    def _at_a_rung(self, run: Run, step: int) -> bool:
        plan = self._plan
        if plan.pruner == "none" or not plan.budget:
            return False
        passed = len(self.known[run.id].rungs) if run.id in self.known else 0
        return step >= plan.budget * (passed + 1) / plan.rungs

    def _ask(self, run: Run) -> Score:
        plan = self._plan
        [curve] = self._reader.curves(run.id, [plan.metric], max_points=POINTS)
        found = score(
            curve.x, curve.y, how=plan.value, best=plan.direction, budget=plan.budget, rungs=plan.rungs,
            ended=run.phase == COMPLETED,
        )  # fmt: skip
        if found.value is None and not curve.x and run.phase == COMPLETED:
            return Score(flaw=self._why_none(run))
        return found

    def _why_none(self, run: Run) -> str:
        known = [info.name for info in self._reader.series(run.id)]
        if not known:
            return "it has no series at all: no episode has ended and nothing was measured"
        return f"it has no {self._plan.metric}: {not_accepted(self._plan.metric, known, limit=10)}"
