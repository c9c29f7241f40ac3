"""`runspine bisect`: find the commit that made a metric worse."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find
from runspine.cli.ui.follow import follow_run
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.code.git_state import GitError, checked_out, commits_between, subject_of, work_tree_of
from runspine.code.snapshot import take_snapshot
from runspine.code.upload import code_of, store_snapshot
from runspine.errors import RefusedError
from runspine.reproduce.bisection import Bisection, is_good
from runspine.rpc.telemetry_client import MAX_POINTS, TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.sweep.score import score
from runspine.text.values import escaped
from runspine.wire.v1.run_pb2 import COMPLETED, Run
from runspine.wire.v1.spec_pb2 import RunSpec

LABEL = "bisect"


@dataclass(frozen=True, slots=True)
class BisectPlan:
    """What is searched for: the commit from which on the metric is on the bad side of the threshold."""

    root: Path
    bad: Run
    metric: str
    threshold: float
    # The value of the good run.
    good_value: float
    id: str


@click.command()
@click.argument("good", metavar="GOOD")
@click.argument("bad", metavar="BAD")
@click.option("--metric", default="episode/return", show_default=True, help="Series that became worse.")
@click.option("--threshold", type=float, help="Value between good and bad; their middle by default.")
@json_option
def bisect(good: str, bad: str, metric: str, threshold: float | None, as_json: bool) -> None:
    """Find the commit between the code of two runs that made a metric worse.

    Start it in the project's work tree. Each trial is a run of BAD's spec with the code of a commit, in
    halves: 4 runs for 16 commits. The same command again continues where it stopped.
    """
    with Client() as client:
        plan, commits = _plan(client, find(client, good).run, find(client, bad).run, metric, threshold)
        search, trials = Bisection(commits), []
        while search.found is None:
            commit = search.next
            trial = _try(client, plan, commit, search, as_json)
            search.record(commit, trial["good"])
            trials.append(trial)
    title = subject_of(plan.root, search.found)
    if as_json:
        echo_json({"commit": search.found, "subject": title, "threshold": plan.threshold, "trials": trials})
        return
    echo(f"first bad commit: {search.found}  {escaped(title)}", "bold")
    note(f"{len(trials)} runs, label {LABEL}={plan.id}; `git show {search.found[:12]}` has the change")


def _plan(
    client: Client, good: Run, bad: Run, metric: str, threshold: float | None
) -> tuple[BisectPlan, list[str]]:
    """Check both runs and list the history between them. Raises RefusedError."""
    root = work_tree_of(Path.cwd())
    if root is None:
        raise RefusedError("this folder is not in a git work tree: start bisect in the project")
    for run in (good, bad):
        if not run.spec.code.origin.commit:
            raise RefusedError(f"run {run.id} has no commit on record: it must be submitted from a work tree")
    ends = good.spec.code.origin.commit, bad.spec.code.origin.commit
    try:
        commits = commits_between(root, *ends)
    except GitError as error:
        raise RefusedError(
            f"this repository does not have {ends[0][:12]} and {ends[1][:12]}: {error}"
        ) from error
    if not commits:
        raise RefusedError(f"{ends[1][:12]} does not descend from {ends[0][:12]}: name the older run first")
    values = _value(client, good, metric), _value(client, bad, metric)
    if values[0] is None or values[1] is None:
        raise RefusedError(f"a run has no value of {metric}: `runspine metrics RUN` lists what it has")
    middle = (values[0] + values[1]) / 2 if threshold is None else threshold
    if is_good(values[1], middle, values[0]):
        raise RefusedError(f"{metric} is {values[0]:g} and {values[1]:g}: both on one side of {middle:g}")
    text = f"{good.id} {bad.id} {metric} {middle!r}"
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    return BisectPlan(root, bad, metric, middle, values[0], name), commits


def _try(client: Client, plan: BisectPlan, commit: str, search: Bisection, as_json: bool) -> dict[str, Any]:
    """Run the bad run's spec with the code of a commit. A run that fails is bad."""
    if not as_json:
        note(f"{commit[:12]}  {escaped(subject_of(plan.root, commit))}  (at most {search.left} more runs)")
    with checked_out(plan.root, commit) as folder:
        snapshot = take_snapshot(folder)
        store_snapshot(client, snapshot)
        code = code_of(snapshot, plan.bad.spec.code.directory)
    # The name of the temporary folder would make each repetition another spec.
    code.origin.folder = plan.bad.spec.code.origin.folder
    spec = RunSpec()
    spec.CopyFrom(plan.bad.spec)
    spec.name = ""
    spec.code.CopyFrom(code)
    spec.labels.update({LABEL: plan.id, f"{LABEL}.commit": commit[:12]})
    run = client.submit(spec, f"{LABEL}/{plan.id}/{commit}").run
    run = _ended(client, run, as_json)
    value = _value(client, run, plan.metric) if run.phase == COMPLETED else None
    good = value is not None and is_good(value, plan.threshold, plan.good_value)
    if not as_json:
        shown = f"{value:g}" if value is not None else escaped(run.reason or "no value")
        echo(
            f"{commit[:12]}  {'good' if good else 'bad '}  {plan.metric} {shown}", "green" if good else "red"
        )
    return {"commit": commit, "run": run.id, "value": value, "good": good}


def _ended(client: Client, run: Run, as_json: bool) -> Run:
    if as_json:
        for _ in client.watch(run.id, until_end=True):
            pass
    else:
        follow_run(client, run, as_json)
    return client.get(run.id).run


def _value(client: Client, run: Run, metric: str) -> float | None:
    """The final value of a series: the mean of its last tenth."""
    curve = TelemetryClient(client).curves(run.id, [metric], max_points=MAX_POINTS)[0]
    return score(curve.x, curve.y, how="final", best="maximize", budget=0, rungs=0, ended=True).value
