"""`runspine show`: one run in detail."""

from __future__ import annotations

import json
import shlex
import time

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find, run_argument
from runspine.cli.ui.follow import echo_fact, warnings
from runspine.cli.ui.screen import echo, echo_json, note, phase_cell
from runspine.clock import now_micros
from runspine.domain.lineage import describe_fork, describe_warm_start, fork_of, readable, start_text
from runspine.domain.run.attempts import newest_tracking
from runspine.domain.run.rest import rests
from runspine.domain.tracking import LABEL, label_text
from runspine.errors import RunspineError
from runspine.eventlog.admission import accepted_facts
from runspine.eventlog.subjects import ATTEMPTS, RUNS, attempts_subject, run_subject
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.spec.run_file import spec_yaml
from runspine.text.code import code_text, packages_text
from runspine.text.facts import counts_text, elapsed, exit_text, pending_text, progress_parts, tracking_text
from runspine.text.preflight import preflight_lines
from runspine.text.provenance import provenance_lines
from runspine.text.values import escaped, escaped_block, local_time, when
from runspine.wire.v1.facts_pb2 import Fact, TrainerDescribed
from runspine.wire.v1.run_pb2 import Attempt, Run
from runspine.wire.v1.trainer_pb2 import GetResponse


@click.command()
@run_argument
@json_option
def show(run: str, as_json: bool) -> None:
    """Show the state, attempts, timeline and spec of a run."""
    with Client() as client:
        found = find(client, run)
        facts = history(client, found.run.id)
    if as_json:
        details = to_plain(found)
        details["facts"] = [to_plain(fact) for fact in facts]
        details["warnings"] = warnings(found.run)
        echo_json(details)
        return
    _head(found)
    for attempt in found.attempts:
        _attempt(found.run.id, attempt)
    _section("Timeline")
    _timeline(facts)
    _section("Spec")
    echo(escaped_block(spec_yaml(readable(found.run.spec)).rstrip("\n")))
    if fork_of(found.run.spec):
        note("the record of the fork is omitted; --json includes it")


def history(client: Client, run_id: str) -> list[Fact]:
    """All facts of a run from the log, in order of time."""
    facts: list[Fact] = []
    for stream, subject in ((RUNS, run_subject(run_id)), (ATTEMPTS, attempts_subject(run_id))):
        try:
            facts += [fact for _, fact in accepted_facts(client.read_log(stream, subject=subject))]
        except RunspineError as error:
            note(f"notice: the timeline is incomplete: {escaped(str(error))}")
    return sorted(facts, key=lambda fact: fact.at)


def _head(found: GetResponse) -> None:
    run = found.run
    cell = phase_cell(run.phase)
    echo(f"{cell.text}  {escaped(run.name)}", f"bold {cell.style}".strip())
    for label, text in _lines(run, found):
        if text:
            echo(f"  {label:<10} {text}")
    for line in preflight_lines(run.preflight, when=when):
        echo(f"  {line}", "dim")
    for warning in warnings(run):
        echo(f"  warning: {escaped(warning)}", "bold yellow")


def _lines(run: Run, found: GetResponse) -> list[tuple[str, str]]:
    return [
        ("id", run.id),
        ("reason", escaped(run.reason)),
        (
            "submitted",
            when(run.submitted_at) + (f" by {escaped(run.submitted_by)}" if run.submitted_by else ""),
        ),
        ("again of", escaped(run.parent)),
        ("fork of", escaped(describe_fork(run.spec))),
        ("warm start", escaped(describe_warm_start(run.spec))),
        ("dataset", escaped(_dataset(run))),
        ("code", escaped(code_text(run.spec.code))),
        ("packages", escaped(packages_text(run.spec.packages))),
        ("waits for", _start_time(run)),
        ("started", when(run.started_at) if run.started_at else ""),
        ("ended", when(run.ended_at) if run.ended_at else ""),
        ("took", elapsed(run.started_at, run.ended_at, time.time()) if run.started_at else ""),
        ("worker", escaped(run.worker_id)),
        ("attempt", f"{run.attempt}" + _tally(run)),
        ("priority", str(run.priority)),
        ("labels", escaped(", ".join(f"{k}={v}" for k, v in sorted(run.labels.items())))),
        ("progress", ", ".join(progress_parts(found.progress))),
        ("counted", counts_text(run.counts) if run.HasField("counts") else ""),
        ("last step", when(found.progress.last_step_at) if found.progress.last_step_at else ""),
        ("tracked at", escaped(_tracking(found))),
        ("artifacts", pending_text(sum(attempt.artifacts_pending for attempt in found.attempts))),
    ]


def _dataset(run: Run) -> str:
    dataset = run.spec.dataset
    return f"{dataset.name or 'unnamed'} ({dataset.digest[:12]})" if dataset.digest else ""


def _tracking(found: GetResponse) -> str:
    if (tracking := newest_tracking(found.attempts)) is not None:
        return tracking_text(tracking)
    return label_text(found.run.labels.get(LABEL, ""))


def _config(described: TrainerDescribed) -> None:
    """What the trainer reported about itself: its configuration, one value a line."""
    if described.notice:
        echo(f"  notice     {escaped(described.notice)}", "bold yellow")
    if not described.config_json:
        return
    echo("  config")
    fields = json.loads(described.config_json)
    arguments = fields.pop("args", None)
    for key, value in sorted({**fields, **(arguments if isinstance(arguments, dict) else {})}.items()):
        echo(f"    {escaped(key)}: {escaped(value if isinstance(value, str) else json.dumps(value))}")


def _start_time(run: Run) -> str:
    return local_time(run.not_before) if rests(run, now_micros()) else ""


def _tally(run: Run) -> str:
    counted = ((run.failures, "failed"), (run.losses, "lost"), (run.hand_backs, "handed back"))
    parts = [f"{n} {word}" for n, word in counted if n]
    return f" ({', '.join(parts)})" if parts else ""


def _attempt(run_id: str, attempt: Attempt) -> None:
    took = elapsed(attempt.started_at, attempt.ended_at, time.time())
    ended = exit_text(attempt.exited) if attempt.HasField("exited") else "not reported yet"
    _section(f"Attempt {attempt.number}")
    echo(f"  on         {escaped(attempt.worker_id)} ({escaped(attempt.host)}), {took}")
    if attempt.HasField("resumed_from"):
        echo(f"  began      {escaped(start_text(attempt.resumed_from, run_id))}")
    echo(f"  ended      {escaped(ended)}")
    echo(f"  command    {escaped(shlex.join(attempt.command))}")
    gone = f" (removed {when(attempt.folder_removed_at)})" if attempt.folder_removed_at else ""
    echo(f"  directory  {escaped(attempt.directory)}{gone}")
    if attempt.versions:
        versions = ", ".join(f"{name} {version}" for name, version in sorted(attempt.versions.items()))
        echo(f"  versions   {escaped(versions)}")
    for word, text in provenance_lines(attempt.provenance):
        echo(f"  {word:<10} {escaped(text)}")
    if attempt.HasField("exited") and attempt.exited.HasField("counts"):
        echo(f"  counted    {counts_text(attempt.exited.counts)}")
    _config(attempt.described)
    tail = attempt.exited.stderr_tail.rstrip("\n")
    if tail:
        echo("  stderr")
        for line in tail.split("\n"):
            echo(f"    {escaped(line)}", "yellow")


def _timeline(facts: list[Fact]) -> None:
    """Print the facts; of the progress facts only the newest."""
    progressed = [i for i, fact in enumerate(facts) if fact.WhichOneof("kind") == "attempt_progressed"]
    left_out = set(progressed[:-1])
    day = ""
    for index, fact in enumerate(facts):
        if index in left_out:
            continue
        if day != (day := local_time(fact.at)[:10]):
            echo(f"  {day}", "dim")
        echo_fact(fact, margin="  ")


def _section(title: str) -> None:
    echo()
    echo(title, "bold")
