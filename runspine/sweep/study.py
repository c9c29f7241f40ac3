"""An Optuna study folded from trials. It is never stored: whoever starts again folds it again."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runspine.errors import Invalid
from runspine.sweep.plan import Plan
from runspine.sweep.space import Choice, Point
from runspine.sweep.trials import State, Trial

try:
    import optuna
except ModuleNotFoundError as error:
    raise Invalid("a sweep needs Optuna: pip install 'runspine[sweep]'") from error

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

REDUCTION = 3


class StudyFold:
    """What to try next, and whom to give up."""

    def __init__(self, plan: Plan) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._plan = plan
        self._space = {axis.path: _distribution(axis) for axis in plan.axes}
        # Hyperband deals trials to brackets by the study's name, so it has to be the sweep's.
        self._study = optuna.create_study(
            study_name=plan.id,
            direction=optuna.study.StudyDirection[plan.direction.upper()],
            sampler=_sampler(plan, 0),
            pruner=_pruner(plan),
        )
        self._asked: list[Any] = []
        self._reported: list[int] = []
        self._told: set[int] = set()
        self._doomed: set[int] = set()

    def feed(self, trials: Sequence[Trial]) -> None:
        """Take in what is new. Trials are numbered without a gap."""
        for trial in trials:
            if trial.number == len(self._asked):
                self._study.enqueue_trial(trial.point)
                self._ask()
            self._report(trial)
        for trial in trials:
            self._tell(trial)

    def suggest(self) -> Point:
        """Where the next trial should be; it counts as under way from now on."""
        number = len(self._asked)
        if self._plan.sampler == "grid":
            self._study.enqueue_trial(self._plan.grid()[number])
        self._study.sampler = _sampler(self._plan, number)
        return dict(self._ask().params)

    def doomed(self, trial: Trial) -> bool:
        """Whether the pruner has given it up."""
        return trial.number in self._doomed

    def _ask(self) -> Any:
        asked = self._study.ask(self._space)
        self._asked.append(asked)
        self._reported.append(0)
        return asked

    def _report(self, trial: Trial) -> None:
        if trial.number in self._told:
            return
        asked, known = self._asked[trial.number], self._reported[trial.number]
        for rung, value in enumerate(trial.rungs[known:], known + 1):
            asked.report(value, rung)
            if asked.should_prune():
                self._doomed.add(trial.number)
        self._reported[trial.number] = max(known, len(trial.rungs))

    def _tell(self, trial: Trial) -> None:
        if trial.state == State.RUNNING or trial.number in self._told:
            return
        self._told.add(trial.number)
        if trial.state == State.COMPLETED:
            self._study.tell(trial.number, trial.value)
        elif trial.state == State.PRUNED and trial.rungs:
            self._study.tell(trial.number, state=optuna.trial.TrialState.PRUNED)
        else:
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _distribution(axis: Any) -> BaseDistribution:
    if isinstance(axis, Choice):
        return optuna.distributions.CategoricalDistribution(list(range(len(axis.nodes))))
    if axis.whole:
        return optuna.distributions.IntDistribution(
            int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the high end is not a multiple of the step
        return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def _sampler(plan: Plan, number: int) -> Any:
    """Its dice follow from sweep and trial, so that starting again asks for the same."""
    seed = int.from_bytes(hashlib.sha256(f"{plan.id}/{number}".encode()).digest()[:4], "big")
    if plan.sampler != "tpe":
        return optuna.samplers.RandomSampler(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that constant_liar may change; it keeps parallel trials apart
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=plan.startup, constant_liar=True)


def _pruner(plan: Plan) -> Any:
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
