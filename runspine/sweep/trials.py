"""Trials as their runs tell them. Pure: a sweep is this fold, and nothing else is kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runspine.errors import Invalid
from runspine.sweep.plan import Plan
from runspine.sweep.score import Score, mean_rungs
from runspine.sweep.space import Point
from runspine.wire.v1.run_pb2 import CANCELLED, CANCELLING, COMPLETED, FAILED, Run

PRUNED_BY = "pruned by sweep "
ENDED = (COMPLETED, FAILED, CANCELLED)


class State(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    PRUNED = "pruned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trial:
    """One place in the space, tried with each seed."""

    number: int
    point: Point
    runs: tuple[Run, ...]
    state: State
    value: float | None = None
    rungs: tuple[float, ...] = ()
    reason: str = ""

    @property
    def active(self) -> bool:
        """Whether a run of it may still take a worker's time."""
        return any(run.phase not in ENDED for run in self.runs)

    def missing(self, plan: Plan) -> list[int]:
        """Seeds it was never submitted with, because whoever did it was stopped between two."""
        if self.state != State.RUNNING:
            return []
        return [seed for seed in plan.seeds if seed not in {run.spec.seed for run in self.runs}]


def fold_trials(plan: Plan, runs: Iterable[Run], scores: Mapping[str, Score]) -> list[Trial]:
    """By number. Raises Invalid where a run is not of this plan."""
    found: dict[int, list[Run]] = {}
    for run in runs:
        label = run.spec.labels.get("trial", "")
        # A run that was submitted again carries the labels too, but is nobody's trial.
        if label.isdecimal() and run.spec.seed in plan.seeds and not run.parent:
            found.setdefault(int(label), []).append(run)
    gaps = [number for number in range(max(found, default=-1)) if number not in found]
    if gaps:
        raise Invalid(f"trial {gaps[0]} of sweep {plan.id} is not among its runs: was its label removed?")
    return [_trial(plan, number, found[number], scores) for number in sorted(found)]


def _trial(plan: Plan, number: int, runs: list[Run], scores: Mapping[str, Score]) -> Trial:
    runs.sort(key=lambda run: plan.seeds.index(run.spec.seed))
    point = plan.point(runs[0].spec)
    told = [scores.get(run.id, Score()) for run in runs]
    whole = len(runs) == len(plan.seeds)
    rungs = tuple(mean_rungs(told)) if whole else ()
    state, reason = _state(plan, runs, told)
    value = None
    if state == State.COMPLETED:
        values = [one.value for one in told if one.value is not None]
        value = sum(values) / len(values)
    elif rungs:
        value = rungs[-1]
    return Trial(number, point, tuple(runs), state, value, rungs, reason)


def _state(plan: Plan, runs: Sequence[Run], told: Sequence[Score]) -> tuple[State, str]:
    for run in runs:
        if run.phase in (CANCELLING, CANCELLED) and run.reason.startswith(PRUNED_BY):
            return State.PRUNED, run.reason
    for run in runs:
        if run.phase in (FAILED, CANCELLING, CANCELLED):
            return State.FAILED, run.reason
    if len(runs) < len(plan.seeds) or any(run.phase != COMPLETED for run in runs):
        return State.RUNNING, ""
    for one in told:
        if one.value is None:
            return State.FAILED, one.flaw or f"it has no {plan.metric}"
    return State.COMPLETED, ""


def best_of(plan: Plan, trials: Sequence[Trial]) -> Trial | None:
    done = [trial for trial in trials if trial.state == State.COMPLETED and trial.value is not None]
    if not done:
        return None
    sign = -1 if plan.direction == "maximize" else 1
    return min(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def is_over(plan: Plan, trials: Sequence[Trial]) -> bool:
    return len(trials) >= plan.trials and not any(
        trial.active or trial.state == State.RUNNING for trial in trials
    )
