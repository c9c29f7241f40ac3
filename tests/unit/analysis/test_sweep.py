"""The core of sweeps: files, scores, trials and the study, without a service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.errors import InvalidError
from runspine.sweep.plan import SweepPlan, parse_plan
from runspine.sweep.score import Score, score
from runspine.sweep.study import StudyFold
from runspine.sweep.trials import PRUNED_BY, Trial, TrialState, best_of, fold_trials, is_over
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, FAILED, RUNNING, Run

BASE = """
runner: script
command: [python, train.py]
total_steps: 1_000
trials: 6
metric: score
"""
SPACE = """
search:
  params.lr: {float: [1e-5, 1e-1], log: true}
  params.layers: {int: [1, 5], step: 2}
  params.net: {choice: [[64, 64], tanh, 3]}
"""


def plan_of(text: str, **sets: Any) -> SweepPlan:
    return parse_plan(BASE + text, Path("sweep.yaml"), [f"{key}={value}" for key, value in sets.items()])


def run_of(plan: SweepPlan, number: int, point: dict[str, float], seed: int = 1, **fields: Any) -> Run:
    return Run(
        id=f"{number}-{seed}",
        spec=plan.spec(number, point, seed),
        **{"phase": COMPLETED, "position": number, **fields},
    )


def fields_of(error: InvalidError) -> set[str]:
    return {violation.field for violation in error.violations}


def test_every_fault_of_a_sweep_file_names_its_field_and_line() -> None:
    text = "direction: up\nsampler: tpee\npruner: fast\nparallel: 0\nseeds: [1, 1]\nsearch: {params.a: 3}\n"
    with pytest.raises(InvalidError) as refused:
        plan_of(text)
    assert fields_of(refused.value) == {
        "direction", "sampler", "pruner", "parallel", "seeds", "search.params.a"
    }  # fmt: skip
    assert "Did you mean 'tpe'?" in str(refused.value)
    assert all("sweep.yaml:" in violation.where for violation in refused.value.violations)


@pytest.mark.parametrize(
    ("axis", "field", "word"),
    [
        ("{float: [2, 1]}", "float", "not below"),
        ("{float: [0, 1], log: true}", "log", "no logarithm"),
        ("{float: [1, 2], log: true, step: 1}", "step", "no step"),
        ("{int: [1.5, 2]}", "int", "whole"),
        ("{choice: [1]}", "choice", "two"),
        ("{choice: [1, 1]}", "choice", "twice"),
        ("{float: [1, .inf]}", "float", "2^53"),
        ("{float: [1, 2], lag: true}", "lag", "unknown"),
        ("{float: [1, 2], int: [1, 2]}", "", "expected"),
    ],
)
def test_a_range_that_cannot_be_is_refused(axis: str, field: str, word: str) -> None:
    with pytest.raises(InvalidError) as refused:
        plan_of(f"search:\n  params.a: {axis}\n")
    [violation] = refused.value.violations
    assert violation.field == ".".join(part for part in ("search.params.a", field) if part)
    assert word in violation.message


def test_knobs_that_would_do_nothing_are_refused() -> None:
    with pytest.raises(InvalidError, match="startup") as refused:
        plan_of(SPACE, sampler="random", startup=3, rungs=4)
    assert fields_of(refused.value) == {"startup", "rungs"}
    with pytest.raises(InvalidError, match="total_steps"):
        plan_of(SPACE, pruner="median", total_steps=0)
    with pytest.raises(InvalidError, match=r"a grid needs .*params\.lr"):
        plan_of(SPACE, sampler="grid")


def test_a_base_that_no_run_can_have_is_refused_before_the_first_trial() -> None:
    with pytest.raises(InvalidError, match="comand"):
        plan_of(SPACE + "comand: [x]\n")


def test_the_id_follows_from_what_is_searched_and_not_from_how_much() -> None:
    first = plan_of(SPACE)
    assert plan_of(SPACE, trials=50, parallel=4).id == first.id
    assert plan_of(SPACE, metric="other").id != first.id
    assert first.id.startswith("sweep-")


def test_a_point_reads_back_from_the_spec_it_made() -> None:
    plan = plan_of(SPACE)
    study = StudyFold(plan)
    for number in range(20):
        point = study.suggest()
        assert plan.point(plan.spec(number, point, 1)) == point


def test_a_run_outside_the_space_is_refused() -> None:
    wide, narrow = (
        plan_of("search: {params.a: {float: [0, 9]}}"),
        plan_of("search: {params.a: {float: [0, 1]}}"),
    )
    run = run_of(wide, 0, {"params.a": 5.0})
    with pytest.raises(InvalidError, match="use another --id"):
        fold_trials(narrow, [run], {})


def test_starting_again_asks_for_the_same_point() -> None:
    plan = plan_of(SPACE)
    first = StudyFold(plan)
    points = [first.suggest() for _ in range(3)]
    trials = [
        Trial(number, point, (run_of(plan, number, point),), TrialState.COMPLETED, float(number))
        for number, point in enumerate(points)
    ]
    again, third = StudyFold(plan), StudyFold(plan)
    again.feed(trials)
    third.feed(trials[:1])
    third.feed(trials)
    assert again.suggest() == third.suggest()


def test_a_grid_visits_each_combination_once() -> None:
    axes = ("a: {int: [1, 3]}", "b: {choice: [x, y]}", "c: {float: [0, 1], step: 0.5}")
    text = "search:\n" + "".join(f"  params.{axis}\n" for axis in axes)
    plan = parse_plan(BASE.replace("trials: 6", "sampler: grid") + text, Path("grid.yaml"))
    study = StudyFold(plan)
    points = [tuple(study.suggest().values()) for _ in range(plan.trials)]
    assert plan.trials == 18
    assert len(set(points)) == 18


@pytest.mark.parametrize("pruner", ["median", "halving", "hyperband"])
def test_each_pruner_stops_bad_trials_and_keeps_the_best(pruner: str) -> None:
    plan = plan_of("search: {params.a: {float: [0, 1]}}", pruner=pruner, trials=20, rungs=9)
    study = StudyFold(plan)
    doomed = []
    for number in range(20):
        point = study.suggest()
        height = 100.0 if number % 4 == 0 else float(number % 4)
        trial = Trial(
            number,
            point,
            (run_of(plan, number, point, phase=RUNNING),),
            TrialState.RUNNING,
            rungs=(height,) * 9,
        )
        study.feed([trial])
        if study.should_prune(trial):
            doomed.append(number)
            study.feed([Trial(number, point, trial.runs, TrialState.PRUNED, height, trial.rungs)])
        else:
            study.feed([Trial(number, point, trial.runs, TrialState.COMPLETED, height, trial.rungs)])
    assert doomed
    assert not [number for number in doomed if number % 4 == 0]


def test_a_trial_is_the_mean_of_its_seeds_and_fails_with_one_of_them() -> None:
    plan = plan_of("search: {params.a: {float: [0, 1]}}\nseeds: 1..3")
    point = {"params.a": 0.5}
    runs = [run_of(plan, 0, point, seed) for seed in (1, 2, 3)]
    scores = {run.id: Score(float(value)) for run, value in zip(runs, (1, 2, 6), strict=True)}
    [trial] = fold_trials(plan, runs, scores)
    assert (trial.state, trial.value) == (TrialState.COMPLETED, 3.0)
    [trial] = fold_trials(plan, runs[:2], scores)
    assert (trial.state, trial.missing(plan)) == (TrialState.RUNNING, [3])
    runs[1].phase, runs[1].reason = FAILED, "boom"
    [trial] = fold_trials(plan, runs, scores)
    assert (trial.state, trial.reason) == (TrialState.FAILED, "boom")
    runs[0].phase, runs[0].reason = CANCELLED, f"{PRUNED_BY}x: bad"
    [trial] = fold_trials(plan, runs, scores)
    assert trial.state == TrialState.PRUNED


def test_a_run_submitted_again_is_not_a_trial_and_a_lost_label_is_reported() -> None:
    plan = plan_of("search: {params.a: {float: [0, 1]}}")
    runs = [run_of(plan, number, {"params.a": 0.5}) for number in range(3)]
    again = run_of(plan, 1, {"params.a": 0.9}, parent="1-1")
    assert len(fold_trials(plan, [*runs, again], {})) == 3
    with pytest.raises(InvalidError, match="trial 1 "):
        fold_trials(plan, [runs[0], runs[2]], {})


@given(st.lists(st.sampled_from([COMPLETED, FAILED, CANCELLED, RUNNING]), min_size=1, max_size=8))
def test_the_best_is_a_completed_trial_and_the_end_waits_for_all(phases: list[Any]) -> None:
    plan = plan_of("search: {params.a: {float: [0, 1]}}", trials=len(phases), direction="minimize")
    runs = [run_of(plan, n, {"params.a": n / 10}, phase=phase) for n, phase in enumerate(phases)]
    trials = fold_trials(plan, runs, {run.id: Score(float(run.position)) for run in runs})
    best = best_of(plan, trials)
    assert (best.number if best else None) == (phases.index(COMPLETED) if COMPLETED in phases else None)
    assert is_over(plan, trials) == (RUNNING not in phases)


def test_a_score_is_the_last_tenth_and_rungs_are_parts_of_the_budget() -> None:
    x, y = list(range(10, 1001, 10)), [float(v) for v in range(10, 1001, 10)]
    whole = score(x, y, how="final", best="maximize", budget=1000, rungs=10, ended=True)
    assert whole.value == pytest.approx(955, abs=6)
    assert whole.rungs[0] == 55.0
    assert len(whole.rungs) == 10
    part = score(x[:25], y[:25], how="best", best="minimize", budget=1000, rungs=10, ended=False)
    assert (part.value, len(part.rungs)) == (10.0, 2)


def test_a_score_that_ends_in_nan_is_no_score() -> None:
    ask = {"how": "last", "best": "maximize", "budget": 0, "rungs": 10, "ended": True}
    assert score([1, 2], [1.0, float("nan")], **ask).value is None  # type: ignore[arg-type]
    assert "no points" in score([], [], **ask).problem  # type: ignore[arg-type]
    assert score([1, 2], [float("nan"), 4.0], **ask).value == 4.0  # type: ignore[arg-type]


def test_help_and_import_leave_optuna_alone() -> None:
    code = (
        "import sys, runspine; from runspine.cli import cli; from runspine.cli.errors import run\n"
        "run(cli, ['--help']); run(cli, ['sweep', '--help']); assert 'optuna' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
