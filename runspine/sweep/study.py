"""An Optuna study folded from trials. It is not stored; a restarted sweep folds it again."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runspine.errors import InvalidError
from runspine.sweep.plan import SweepPlan
from runspine.sweep.space import Point, SearchChoice
from runspine.sweep.trials import Trial, TrialState

try:
    import optuna
except ModuleNotFoundError as error:
    raise InvalidError("a sweep needs Optuna: pip install 'runspine[sweep]'") from error

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

REDUCTION = 3


class StudyFold:
    """Suggests the next point and decides which trials to prune."""

    def __init__(self, plan: SweepPlan) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._plan = plan
        self._space = {axis.path: _distribution(axis) for axis in plan.axes}
        # Hyperband assigns trials to brackets by the name of the study, so it has to be the id of the sweep.
        self._study = optuna.create_study(
            study_name=plan.id,
            direction=optuna.study.StudyDirection[plan.direction.upper()],
            sampler=_sampler(plan, 0),
            pruner=_pruner(plan),
        )
        self._trials: list[Any] = []
        self._reported: list[int] = []
        self._finished: set[int] = set()
        self._pruned: set[int] = set()

    def feed(self, trials: Sequence[Trial]) -> None:
        """Update the study. Trials are numbered without gaps."""
        for trial in trials:
            if trial.number == len(self._trials):
                self._study.enqueue_trial(trial.point)
                self._start_trial()
            self._report(trial)
        for trial in trials:
            self._finish_trial(trial)

    def suggest(self) -> Point:
        """Point of the next trial; the study counts it as running."""
        number = len(self._trials)
        if self._plan.sampler == "grid":
            self._study.enqueue_trial(self._plan.grid()[number])
        self._study.sampler = _sampler(self._plan, number)
        return dict(self._start_trial().params)

    def should_prune(self, trial: Trial) -> bool:
        """Whether the pruner has stopped the trial."""
        return trial.number in self._pruned

    def _start_trial(self) -> Any:
        optuna_trial = self._study.ask(self._space)
        self._trials.append(optuna_trial)
        self._reported.append(0)
        return optuna_trial

    def _report(self, trial: Trial) -> None:
        if trial.number in self._finished:
            return
        optuna_trial, known = self._trials[trial.number], self._reported[trial.number]
        for rung, value in enumerate(trial.rungs[known:], known + 1):
            optuna_trial.report(value, rung)
            if optuna_trial.should_prune():
                self._pruned.add(trial.number)
        self._reported[trial.number] = max(known, len(trial.rungs))

    def _finish_trial(self, trial: Trial) -> None:
        if trial.state == TrialState.RUNNING or trial.number in self._finished:
            return
        self._finished.add(trial.number)
        if trial.state == TrialState.COMPLETED:
            self._study.tell(trial.number, trial.value)
        elif trial.state == TrialState.PRUNED and trial.rungs:
            self._study.tell(trial.number, state=optuna.trial.TrialState.PRUNED)
        else:
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _distribution(axis: Any) -> BaseDistribution:
    if isinstance(axis, SearchChoice):
        return optuna.distributions.CategoricalDistribution(list(range(len(axis.nodes))))
    if axis.whole:
        return optuna.distributions.IntDistribution(
            int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the high end is not a multiple of the step
        return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def _sampler(plan: SweepPlan, number: int) -> Any:
    """Sampler seeded by sweep and trial, so that a restart suggests the same points."""
    seed = int.from_bytes(hashlib.sha256(f"{plan.id}/{number}".encode()).digest()[:4], "big")
    if plan.sampler != "tpe":
        return optuna.samplers.RandomSampler(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that constant_liar may change; it keeps parallel trials apart
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=plan.startup, constant_liar=True)


def _pruner(plan: SweepPlan) -> Any:
    match plan.pruner:
        case "median":
            return optuna.pruners.MedianPruner(n_startup_trials=plan.startup)
        case "halving":
            return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION)
        case "hyperband":
            return optuna.pruners.HyperbandPruner(
                min_resource=1, max_resource=plan.rungs, reduction_factor=REDUCTION
            )
    return optuna.pruners.NopPruner()
