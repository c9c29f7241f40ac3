"""`runspine sweep`: search parameters with trials that are runs."""

from __future__ import annotations

from pathlib import Path

import click

from runspine.cli.edge import FAILED, INTERRUPTED, OK, json_option
from runspine.cli.listing import ListingGroup
from runspine.cli.screen import note, say, say_json
from runspine.cli.submit import set_option, settle_dataset
from runspine.cli.sweep_screen import say_best, showing, told_sweep, trial_table
from runspine.client import Client
from runspine.errors import NotFound
from runspine.sweep.plan import Plan, load_plan
from runspine.sweep.recall import differing, recalled
from runspine.sweep.trials import Trial, best_of, fold_trials


class _SweepGroup(ListingGroup):
    usual = "run"


@click.group(cls=_SweepGroup)
def sweep() -> None:
    """Search for good parameters: `sweep FILE`, or `sweep show ID`.

    Trials are runs; the same file again goes on where the sweep stopped.
    """


@sweep.command("run")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@set_option
@click.option("--id", "name", default="", help="Another sweep of the same file, or one to go on with.")
@click.option("--dry-run", is_flag=True, help="Check everything, submit nothing.")
@json_option
def run(file: Path, sets: tuple[str, ...], name: str, dry_run: bool, as_json: bool) -> int:
    """Run a sweep to its end, or go on with it.

    \b
    runspine sweep sweep.yaml
    runspine sweep sweep.yaml --set trials=50      # more of the same
    """
    plan = load_plan(file, sets, name)
    with Client() as client:
        _check(client, plan)
        if dry_run:
            _say_plan(plan, as_json)
            return OK
        return _follow(client, plan, as_json)


def _check(client: Client, plan: Plan) -> None:
    """The first corner of the space, so that a file no runner takes is refused before the first trial."""
    point = {axis.path: (axis.values() or [getattr(axis, "low", 0)])[0] for axis in plan.axes}
    spec = plan.spec(0, point, plan.seeds[0])
    settle_dataset(client, spec)
    for notice in client.validate(spec).notices:
        note(f"notice: {notice}")


def _say_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        say_json(told_sweep(plan, []))
        return
    runs = plan.trials * len(plan.seeds)
    say(f"sweep {plan.id}: {plan.trials} trials, {runs} runs, {plan.parallel} trials at once")
    note("nothing was submitted")


def _follow(client: Client, plan: Plan, as_json: bool) -> int:
    from runspine.sweep.sweeper import Sweeper

    trials: list[Trial] = []
    if not as_json:
        note(f"sweep {plan.id}: {plan.trials} trials of {plan.metric}, {plan.parallel} at once")
    try:
        with showing(plan, as_json) as show:
            for trials in Sweeper(client, plan).run():
                show(trials)
    except KeyboardInterrupt:
        note(f"\nleft; {sum(t.active for t in trials)} trials go on. The same command goes on with the sweep")
        return INTERRUPTED
    if as_json:
        say_json(told_sweep(plan, trials))
    else:
        say_best(plan, trials)
    return OK if best_of(plan, trials) else FAILED


@sweep.command("show")
@click.argument("sweep_id", metavar="ID")
@json_option
def show(sweep_id: str, as_json: bool) -> None:
    """The trials of a sweep, the best first."""
    from runspine.sweep.reading import read_runs

    with Client() as client:
        runs, scores_of = read_runs(client, sweep_id)
        if not runs:
            raise NotFound(f"no run has the label sweep={sweep_id}; `runspine ls` shows what there is")
        plan = recalled(sweep_id, runs)
        trials = fold_trials(plan, runs, scores_of(plan))
    varied = differing({trial.number: trial.runs[0] for trial in trials})
    if as_json:
        say_json(told_sweep(plan, trials, varied))
        return
    trial_table(plan, trials, varied)
    say_best(plan, trials, varied)
