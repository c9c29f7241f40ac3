"""`runspine sweep`: hyperparameter search; every trial is a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from runspine.cli.commands.runs.submit import set_option
from runspine.cli.errors import FAILED, INTERRUPTED, OK, json_option
from runspine.cli.listing_group import ListingGroup
from runspine.cli.lookup.project_code import CodeOptions, place_code
from runspine.cli.lookup.project_packages import place_packages
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.cli.ui.sweep_table import echo_best, live_trials, sweep_json, trial_table
from runspine.errors import RunNotFoundError
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import code_choice, packages_choice
from runspine.sweep.plan import SweepPlan, load_plan
from runspine.sweep.recalled_plan import differing_fields, plan_of_runs
from runspine.sweep.trials import Trial, best_of, fold_trials


class _SweepGroup(ListingGroup):
    default_command = "run"


@click.group(cls=_SweepGroup)
def sweep() -> None:
    """Search hyperparameters: `sweep FILE`, or `sweep show ID`.

    Every trial is a run. Running the same file again continues the sweep.
    """


@sweep.command("run")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@set_option
@click.option(
    "--id", "name", default="", help="Sweep id: start another sweep of the same file, or continue one."
)
@click.option("--dry-run", is_flag=True, help="Validate only; submit nothing.")
@json_option
def run(file: Path, sets: tuple[str, ...], name: str, dry_run: bool, as_json: bool) -> int:
    """Run or continue a sweep to its end.

    \b
    runspine sweep sweep.yaml
    runspine sweep sweep.yaml --set trials=50      # more of the same
    """
    plan = load_plan(file, sets, name)
    with Client() as client:
        plan = _with_code(client, _with_packages(client, plan), as_json)
        _check(client, plan)
        if dry_run:
            _echo_plan(plan, as_json)
            return OK
        return _follow(client, plan, as_json)


def _with_code(client: Client, plan: SweepPlan, as_json: bool) -> SweepPlan:
    """The plan with stored code: that of its earlier trials, or the folder as it is now."""
    from runspine.code.placement import PlacedCode, needs_code
    from runspine.code.snapshot import project_root
    from runspine.sweep.sweep_runs import runs_of

    if not needs_code([plan.spec(0, _point(plan), plan.seeds[0])]):
        return plan
    used = next((each.run.spec.code for each in runs_of(client, plan.id) if each.run.spec.code.tree), None)
    if used is not None:
        folder = plan.folder.resolve()
        return replace(plan, code=PlacedCode(used, project_root(folder), folder))
    choice = code_choice(plan.base)
    return replace(plan, code=place_code(client, plan.folder, choice, CodeOptions(), as_json))


def _with_packages(client: Client, plan: SweepPlan) -> SweepPlan:
    """The plan with stored packages: those of its earlier trials, or the files as they are now."""
    from runspine.sweep.sweep_runs import runs_of

    choice = packages_choice(plan.base)
    if not choice:
        return plan
    earlier = (each.run.spec for each in runs_of(client, plan.id))
    used = next((spec.packages for spec in earlier if spec.packages.tree), None)
    return replace(plan, packages=used or place_packages(client, choice, plan.folder))


def _point(plan: SweepPlan) -> dict[str, Any]:
    """One point of the space."""
    return {axis.path: (axis.values() or [getattr(axis, "low", 0)])[0] for axis in plan.axes}


def _check(client: Client, plan: SweepPlan) -> None:
    """Validate one point of the space, so that an invalid file is refused before the first trial."""
    spec = plan.spec(0, _point(plan), plan.seeds[0])
    for notice in client.validate(spec).notices:
        note(f"notice: {notice}")


def _echo_plan(plan: SweepPlan, as_json: bool) -> None:
    if as_json:
        echo_json(sweep_json(plan, []))
        return
    runs = plan.trials * len(plan.seeds)
    echo(f"sweep {plan.id}: {plan.trials} trials, {runs} runs, {plan.parallel} trials at once")
    note("nothing was submitted")


def _follow(client: Client, plan: SweepPlan, as_json: bool) -> int:
    from runspine.sweep.sweeper import Sweeper

    trials: list[Trial] = []
    if not as_json:
        note(f"sweep {plan.id}: {plan.trials} trials of {plan.metric}, {plan.parallel} at once")
    try:
        with live_trials(plan, as_json) as show:
            for trials in Sweeper(client, plan).run():
                show(trials)
    except KeyboardInterrupt:
        note(f"\ndetached; {sum(t.active for t in trials)} trials continue. Continue with the same command")
        return INTERRUPTED
    if as_json:
        echo_json(sweep_json(plan, trials))
    else:
        echo_best(plan, trials)
    return OK if best_of(plan, trials) else FAILED


@sweep.command("show")
@click.argument("sweep_id", metavar="ID")
@json_option
def show(sweep_id: str, as_json: bool) -> None:
    """Show the trials of a sweep, best first."""
    from runspine.sweep.sweep_runs import read_runs

    with Client() as client:
        runs, scores_of = read_runs(client, sweep_id)
        if not runs:
            raise RunNotFoundError(f"no run has the label sweep={sweep_id}; `runspine ls` lists runs")
        plan = plan_of_runs(sweep_id, runs)
        trials = fold_trials(plan, runs, scores_of(plan))
    varied = differing_fields({trial.number: trial.runs[0] for trial in trials})
    if as_json:
        echo_json(sweep_json(plan, trials, varied))
        return
    trial_table(plan, trials, varied)
    echo_best(plan, trials, varied)
