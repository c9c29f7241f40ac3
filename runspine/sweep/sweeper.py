"""Runs a sweep: looks at the log, asks the study, submits and prunes. Keeps nothing that the log has not."""

from __future__ import annotations

import time
from collections.abc import Iterator

from runspine.client import Client
from runspine.datasets.registry import settle
from runspine.errors import Invalid, Refused, RunspineError
from runspine.sweep.plan import Plan
from runspine.sweep.reading import runs_of
from runspine.sweep.space import Point
from runspine.sweep.study import StudyFold
from runspine.sweep.telling import Scores
from runspine.sweep.trials import ENDED, PRUNED_BY, State, Trial, fold_trials, is_over
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1.run_pb2 import CANCELLING, Run

PAUSE = 0.5
# So many trials that fail before any does not are a mistake in the file, not bad luck.
HOPELESS = 3


class Hopeless(RunspineError):
    """Every trial so far has failed."""


class Sweeper:
    """Several may work on one sweep: the keys of its runs see to it that no trial is made twice."""

    def __init__(self, client: Client, plan: Plan) -> None:
        self._client = client
        self._plan = plan
        self._scores = Scores(TelemetryReader(client), plan)
        self._runs: dict[str, Run] = {}
        self._study = StudyFold(plan)

    def run(self) -> Iterator[list[Trial]]:
        """The trials again and again, until all have ended. Raises RunspineError."""
        while True:
            trials = self._look()
            yield trials
            if is_over(self._plan, trials):
                return
            self._advance(trials)
            time.sleep(PAUSE)

    def _look(self) -> list[Trial]:
        for summary in runs_of(self._client, self._plan.id):
            run, known = summary.run, self._runs.get(summary.run.id)
            if known is None or run.position >= known.position:
                self._runs[run.id] = run
            self._scores.look(self._runs[run.id], summary.progress.step)
        return fold_trials(self._plan, self._runs.values(), self._scores.known)

    def _advance(self, trials: list[Trial]) -> None:
        self._study.feed(trials)
        for trial in trials:
            self._mend(trial)
            if trial.state == State.RUNNING and self._study.doomed(trial):
                self._cancel(trial, self._why_pruned(trial, trials))
        failed = [trial for trial in trials if trial.state == State.FAILED]
        if len(failed) >= HOPELESS and len(failed) == len([t for t in trials if t.state != State.RUNNING]):
            raise Hopeless(
                f"the first {len(failed)} trials of sweep {self._plan.id} all failed; the last: "
                f"{failed[-1].reason}; see: runspine logs {failed[-1].runs[0].id}"
            )
        busy = sum(trial.active or bool(trial.missing(self._plan)) for trial in trials)
        for number in range(len(trials), min(self._plan.trials, len(trials) + self._plan.parallel - busy)):
            if not self._begin(number, self._study.suggest(), self._plan.seeds):
                return

    def _begin(self, number: int, point: Point, seeds: tuple[int, ...] | list[int]) -> bool:
        """Submit the runs of a trial; False when another sweeper was first with a point of its own."""
        for seed in seeds:
            spec = self._plan.spec(number, point, seed)
            if spec.HasField("dataset"):
                settle(self._client, spec)
            try:
                answer = self._client.submit(spec, self._plan.key(number, seed))
            except Invalid as error:
                if [violation.field for violation in error.violations] != ["idempotency_key"]:
                    raise
                self._study = StudyFold(self._plan)  # this one took a point that nobody tries
                return False
            self._runs[answer.run.id] = answer.run
        return True

    def _mend(self, trial: Trial) -> None:
        """What a sweeper that was stopped left half done."""
        if missing := trial.missing(self._plan):
            self._begin(trial.number, trial.point, missing)
        if trial.state in (State.PRUNED, State.FAILED) and trial.active:
            why = (
                trial.reason if trial.state == State.PRUNED else f"another run of trial {trial.number} failed"
            )
            self._cancel(trial, why)

    def _cancel(self, trial: Trial, reason: str) -> None:
        for run in trial.runs:
            if run.phase in (*ENDED, CANCELLING):
                continue
            try:
                self._runs[run.id] = self._client.cancel(run.id, reason)
            except Refused:
                continue  # it has ended meanwhile, and counts as it ended

    def _why_pruned(self, trial: Trial, trials: list[Trial]) -> str:
        plan, rung = self._plan, len(trial.rungs)
        there = [other.rungs[rung - 1] for other in trials if len(other.rungs) >= rung]
        best = (max if plan.direction == "maximize" else min)(there)
        return (
            f"{PRUNED_BY}{plan.id} ({plan.pruner}): {plan.metric} {trial.rungs[-1]:.4g} at step "
            f"{plan.budget * rung // plan.rungs:,} of {plan.budget:,}; the best of {len(there)} trials had "
            f"{best:.4g} there"
        )
