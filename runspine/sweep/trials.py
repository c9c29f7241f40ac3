"""Trials of a sweep, folded from its runs. Pure; a sweep has no other state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runspine.domain.run import ENDED
from runspine.errors import InvalidError
from runspine.sweep.plan import SweepPlan
from runspine.sweep.score import Score, mean_rungs
from runspine.sweep.space import Point
from runspine.wire.v1.run_pb2 import CANCELLED, CANCELLING, COMPLETED, FAILED, Run

PRUNED_BY = "pruned by sweep "


class TrialState(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    PRUNED = "pruned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trial:
    """One point in the search space, run with each seed."""

    number: int
    point: Point
    runs: tuple[Run, ...]
    state: TrialState
    value: float | None = None
    rungs: tuple[float, ...] = ()
    reason: str = ""

    @property
    def active(self) -> bool:
        """Whether a run of the trial has not ended."""
        return any(run.phase not in ENDED for run in self.runs)

    def missing(self, plan: SweepPlan) -> list[int]:
        """Seeds not submitted yet, because the sweeper was interrupted."""
        if self.state != TrialState.RUNNING:
            return []
        return [seed for seed in plan.seeds if seed not in {run.spec.seed for run in self.runs}]


def fold_trials(plan: SweepPlan, runs: Iterable[Run], scores: Mapping[str, Score]) -> list[Trial]:
    """Trials by number. Raises InvalidError when a run does not belong to the plan."""
    found: dict[int, list[Run]] = {}
    for run in runs:
        label = run.spec.labels.get("trial", "")
        # A resubmitted run has the labels too, but is not a trial.
        if label.isdecimal() and run.spec.seed in plan.seeds and not run.parent:
            found.setdefault(int(label), []).append(run)
    gaps = [number for number in range(max(found, default=-1)) if number not in found]
    if gaps:
        raise InvalidError(
            f"trial {gaps[0]} of sweep {plan.id} is not among its runs: was its label removed?"
        )
    return [_trial(plan, number, found[number], scores) for number in sorted(found)]


def _trial(plan: SweepPlan, number: int, runs: list[Run], scores: Mapping[str, Score]) -> Trial:
    runs.sort(key=lambda run: plan.seeds.index(run.spec.seed))
    point = plan.point(runs[0].spec)
    found_scores = [scores.get(run.id, Score()) for run in runs]
    whole = len(runs) == len(plan.seeds)
    rungs = tuple(mean_rungs(found_scores)) if whole else ()
    state, reason = _state(plan, runs, found_scores)
    value = None
    if state == TrialState.COMPLETED:
        values = [one.value for one in found_scores if one.value is not None]
        value = sum(values) / len(values)
    elif rungs:
        value = rungs[-1]
    return Trial(number, point, tuple(runs), state, value, rungs, reason)


def _state(plan: SweepPlan, runs: Sequence[Run], found_scores: Sequence[Score]) -> tuple[TrialState, str]:
    for run in runs:
        if run.phase in (CANCELLING, CANCELLED) and run.reason.startswith(PRUNED_BY):
            return TrialState.PRUNED, run.reason
    for run in runs:
        if run.phase in (FAILED, CANCELLING, CANCELLED):
            return TrialState.FAILED, run.reason
    if len(runs) < len(plan.seeds) or any(run.phase != COMPLETED for run in runs):
        return TrialState.RUNNING, ""
    for one in found_scores:
        if one.value is None:
            return TrialState.FAILED, one.problem or f"it has no {plan.metric}"
    return TrialState.COMPLETED, ""


def best_of(plan: SweepPlan, trials: Sequence[Trial]) -> Trial | None:
    done = [trial for trial in trials if trial.state == TrialState.COMPLETED and trial.value is not None]
    if not done:
        return None
    sign = -1 if plan.direction == "maximize" else 1
    return min(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def is_over(plan: SweepPlan, trials: Sequence[Trial]) -> bool:
    return len(trials) >= plan.trials and not any(
        trial.active or trial.state == TrialState.RUNNING for trial in trials
    )
