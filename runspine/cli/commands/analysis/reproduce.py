"""`runspine reproduce`: run a run again and compare the telemetry step by step."""

from __future__ import annotations

from typing import Any

import click

from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.run import find, run_argument
from runspine.cli.ui.difference_report import echo_differences
from runspine.cli.ui.follow import follow_run
from runspine.cli.ui.screen import echo, echo_json, has_ended, note
from runspine.errors import RefusedError
from runspine.reproduce.differences import Difference, package_differences, provenance_differences
from runspine.reproduce.reading import ComparedRun, compared_run, read_packages, read_telemetry
from runspine.reproduce.telemetry import TelemetryVerdict, compare_telemetry
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.run_pb2 import COMPLETED, Run
from runspine.wire.v1.spec_pb2 import RunSpec

LABEL = "reproduces"


@click.command()
@run_argument
@click.option("--with", "other", default="", metavar="RUN", help="Compare with this run; start none.")
@click.option("--pool", default="", help="Pool whose workers may claim the new run.")
@json_option
def reproduce(run: str, other: str, pool: str, as_json: bool) -> int:
    """Run the same code with the same seed again, and compare every recorded step and metric bit by bit.

    Exit code 0: bit-identical. Otherwise the first step that differs is printed, with the differences in
    packages and hardware that may explain it.
    """
    with Client() as client:
        first = compared_run(find(client, run))
        if first.run.phase != COMPLETED:
            raise RefusedError(f"run {first.run.id} did not complete: only a completed run can be repeated")
        second_id = find(client, other).run.id if other else _again(client, first.run, pool, as_json)
        second = compared_run(find(client, second_id))
        verdict = compare_telemetry(read_telemetry(client, first), read_telemetry(client, second))
        reasons = [] if verdict.identical else _reasons(client, first, second)
    if as_json:
        echo_json(_plain(first, second, verdict, reasons))
    else:
        _echo(first, second, verdict, reasons)
    return OK if verdict.identical else FAILED


def _again(client: Client, run: Run, pool: str, as_json: bool) -> str:
    """Submit the run again and follow it to its end; the new run's id. Raises RefusedError."""
    spec = RunSpec()
    spec.CopyFrom(run.spec)
    spec.name = ""
    spec.labels[LABEL] = run.id
    spec.pool = pool or spec.pool
    again = client.resubmit(run.id, spec).run
    if as_json:
        for message in client.watch(again.id, until_end=True):
            again = message.run if message.HasField("run") else again
    else:
        note(f"run {again.id} repeats {run.id}")
        follow_run(client, again, as_json)
    ended = client.get(again.id).run
    if not has_ended(ended) or ended.phase != COMPLETED:
        raise RefusedError(f"run {ended.id} did not complete: {ended.reason or 'it is still under way'}")
    return ended.id


def _reasons(client: Client, first: ComparedRun, second: ComparedRun) -> list[Difference]:
    found = provenance_differences(first.provenance, second.provenance)
    if first.provenance.packages != second.provenance.packages:
        one, two = read_packages(client, first), read_packages(client, second)
        found += package_differences(one or "", two or "")
    if first.attempt.HasField("resumed_from") or second.attempt.HasField("resumed_from"):
        starts = first.attempt.resumed_from.step, second.attempt.resumed_from.step
        found.append(Difference("resumed from step", *map(str, starts)))
    return found


def _echo(
    first: ComparedRun, second: ComparedRun, verdict: TelemetryVerdict, reasons: list[Difference]
) -> None:
    compared = f"{verdict.steps:,} steps and {verdict.points:,} points of metrics"
    if verdict.identical:
        echo(f"bit-identical: {compared} of {first.run.id} and {second.run.id}", "bold green")
        return
    if verdict.divergence is None:
        echo("nothing was recorded that could be compared", "bold yellow")
        return
    where, step, part, one, two = verdict.divergence
    echo(f"different at step {step:,} of {where}: {part} {one} -> {two}", "bold red")
    note(f"compared: {compared}")
    echo_differences("What may explain it", reasons)
    if not reasons:
        note("code, packages, hardware and switches are the same: the program itself is not deterministic")


def _plain(
    first: ComparedRun, second: ComparedRun, verdict: TelemetryVerdict, reasons: list[Difference]
) -> dict[str, Any]:
    return {
        "runs": [first.run.id, second.run.id],
        "identical": verdict.identical,
        "steps": verdict.steps,
        "points": verdict.points,
        "divergence": verdict.divergence._asdict() if verdict.divergence else None,
        "reasons": [each._asdict() for each in reasons],
    }
