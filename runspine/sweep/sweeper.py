"""Runs a sweep: reads runs, asks the study, submits and prunes. All state is on the log."""

from __future__ import annotations

import time
from collections.abc import Iterator

from runspine.domain.run import ENDED
from runspine.errors import InvalidError, RefusedError, RunspineError
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.sweep.plan import SweepPlan
from runspine.sweep.score_reader import ScoreReader
from runspine.sweep.space import Point
from runspine.sweep.study import StudyFold
from runspine.sweep.sweep_runs import runs_of
from runspine.sweep.trials import PRUNED_BY, Trial, TrialState, fold_trials, is_over
from runspine.wire.v1.run_pb2 import CANCELLING, Run

POLL_SECONDS = 0.5
# A sweep stops when its first trials all fail.
MAX_FIRST_FAILURES = 3


class SweepFailedError(RunspineError):
    """Every trial so far has failed."""


class Sweeper:
    """Executes a plan. Idempotency keys let several sweepers work on one sweep without duplicates."""

    def __init__(self, client: Client, plan: SweepPlan) -> None:
        self._client = client
        self._plan = plan
        self._scores = ScoreReader(TelemetryClient(client), plan)
        self._runs: dict[str, Run] = {}
        self._study = StudyFold(plan)

    def run(self) -> Iterator[list[Trial]]:
        """Yield the trials after each poll until all have ended. Raises RunspineError."""
        while True:
            trials = self._poll()
            yield trials
            if is_over(self._plan, trials):
                return
            self._advance(trials)
            time.sleep(POLL_SECONDS)

    def _poll(self) -> list[Trial]:
        for summary in runs_of(self._client, self._plan.id):
            run, known = summary.run, self._runs.get(summary.run.id)
            if known is None or run.position >= known.position:
                self._runs[run.id] = run
            self._scores.update(self._runs[run.id], summary.progress.step)
        return fold_trials(self._plan, self._runs.values(), self._scores.known)

    def _advance(self, trials: list[Trial]) -> None:
        self._study.feed(trials)
        for trial in trials:
            self._complete(trial)
            if trial.state == TrialState.RUNNING and self._study.should_prune(trial):
                self._cancel(trial, self._why_pruned(trial, trials))
        failed = [trial for trial in trials if trial.state == TrialState.FAILED]
        if len(failed) >= MAX_FIRST_FAILURES and len(failed) == len(
            [t for t in trials if t.state != TrialState.RUNNING]
        ):
            raise SweepFailedError(
                f"the first {len(failed)} trials of sweep {self._plan.id} all failed; the last: "
                f"{failed[-1].reason}; see: runspine logs {failed[-1].runs[0].id}"
            )
        busy = sum(trial.active or bool(trial.missing(self._plan)) for trial in trials)
        for number in range(len(trials), min(self._plan.trials, len(trials) + self._plan.parallel - busy)):
            if not self._begin(number, self._study.suggest(), self._plan.seeds):
                return

    def _begin(self, number: int, point: Point, seeds: tuple[int, ...] | list[int]) -> bool:
        """Submit the runs of a trial; False when another sweeper has submitted this trial."""
        for seed in seeds:
            spec = self._plan.spec(number, point, seed)
            try:
                answer = self._client.submit(spec, self._plan.key(number, seed))
            except InvalidError as error:
                if [violation.field for violation in error.violations] != ["idempotency_key"]:
                    raise
                self._study = StudyFold(self._plan)  # this study suggested a point that is not tried
                return False
            self._runs[answer.run.id] = answer.run
        return True

    def _complete(self, trial: Trial) -> None:
        """Submit or cancel what an interrupted sweeper left undone."""
        if missing := trial.missing(self._plan):
            self._begin(trial.number, trial.point, missing)
        if trial.state in (TrialState.PRUNED, TrialState.FAILED) and trial.active:
            why = (
                trial.reason
                if trial.state == TrialState.PRUNED
                else f"another run of trial {trial.number} failed"
            )
            self._cancel(trial, why)

    def _cancel(self, trial: Trial, reason: str) -> None:
        for run in trial.runs:
            if run.phase in (*ENDED, CANCELLING):
                continue
            try:
                self._runs[run.id] = self._client.cancel(run.id, reason)
            except RefusedError:
                continue  # it has ended meanwhile, and keeps its outcome

    def _why_pruned(self, trial: Trial, trials: list[Trial]) -> str:
        plan, rung = self._plan, len(trial.rungs)
        there = [other.rungs[rung - 1] for other in trials if len(other.rungs) >= rung]
        best = (max if plan.direction == "maximize" else min)(there)
        return (
            f"{PRUNED_BY}{plan.id} ({plan.pruner}): {plan.metric} {trial.rungs[-1]:.4g} at step "
            f"{plan.budget * rung // plan.rungs:,} of {plan.budget:,}; the best of {len(there)} trials had "
            f"{best:.4g} there"
        )
