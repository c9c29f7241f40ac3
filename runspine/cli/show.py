"""`runspine show`: everything about one run."""

from __future__ import annotations

import shlex
import time

import click

from runspine.cli.ask import find, run_argument
from runspine.cli.edge import json_option
from runspine.cli.facts import counts_words, elapsed, exit_words, pending_words, progress_words
from runspine.cli.follow import say_fact, warnings
from runspine.cli.screen import note, phase_cell, say, say_json
from runspine.cli.text import escaped, escaped_block, local_time, when
from runspine.client import Client
from runspine.errors import RunspineError
from runspine.lineage import fork_of, fork_words, readable
from runspine.log.subjects import ATTEMPTS, RUNS, attempts_subject, run_subject
from runspine.plain import to_plain
from runspine.run.rest import rests
from runspine.runfile import spec_yaml
from runspine.wire.v1.facts_pb2 import Commit, Fact
from runspine.wire.v1.run_pb2 import Attempt, Run
from runspine.wire.v1.trainer_pb2 import GetResponse


@click.command()
@run_argument
@json_option
def show(run: str, as_json: bool) -> None:
    """Show a run: its state, attempts, timeline and spec."""
    with Client() as client:
        found = find(client, run)
        facts = history(client, found.run.id)
    if as_json:
        told = to_plain(found)
        told["facts"] = [to_plain(fact) for fact in facts]
        told["warnings"] = warnings(found.run)
        say_json(told)
        return
    _head(found)
    for attempt in found.attempts:
        _attempt(attempt)
    _section("Timeline")
    _timeline(facts)
    _section("Spec")
    say(escaped_block(spec_yaml(readable(found.run.spec)).rstrip("\n")))
    if fork_of(found.run.spec):
        note("the record of the fork is left out here; --json has it")


def history(client: Client, run_id: str) -> list[Fact]:
    """Every fact about the run, from the log itself, in the order they happened."""
    facts: list[Fact] = []
    for stream, subject in ((RUNS, run_subject(run_id)), (ATTEMPTS, attempts_subject(run_id))):
        try:
            for record in client.read_log(stream, subject=subject):
                facts += Commit.FromString(record.commit).facts
        except RunspineError as error:
            note(f"notice: the timeline is not complete: {escaped(str(error))}")
    return sorted(facts, key=lambda fact: fact.at)


def _head(found: GetResponse) -> None:
    run = found.run
    cell = phase_cell(run.phase)
    say(f"{cell.text}  {escaped(run.name)}", f"bold {cell.style}".strip())
    for label, text in _lines(run, found):
        if text:
            say(f"  {label:<10} {text}")
    for warning in warnings(run):
        say(f"  warning: {escaped(warning)}", "bold yellow")


def _lines(run: Run, found: GetResponse) -> list[tuple[str, str]]:
    return [
        ("id", run.id),
        ("reason", escaped(run.reason)),
        (
            "submitted",
            when(run.submitted_at) + (f" by {escaped(run.submitted_by)}" if run.submitted_by else ""),
        ),
        ("again of", escaped(run.parent)),
        ("fork of", escaped(fork_words(run.spec))),
        ("waits for", _start_time(run)),
        ("started", when(run.started_at) if run.started_at else ""),
        ("ended", when(run.ended_at) if run.ended_at else ""),
        ("took", elapsed(run.started_at, run.ended_at, time.time()) if run.started_at else ""),
        ("worker", escaped(run.worker_id)),
        ("attempt", f"{run.attempt}" + _tally(run)),
        ("priority", str(run.priority)),
        ("labels", escaped(", ".join(f"{k}={v}" for k, v in sorted(run.labels.items())))),
        ("progress", ", ".join(progress_words(found.progress))),
        ("counted", counts_words(run.counts) if run.HasField("counts") else ""),
        ("artifacts", pending_words(sum(attempt.artifacts_pending for attempt in found.attempts))),
    ]


def _start_time(run: Run) -> str:
    return local_time(run.not_before) if rests(run, int(time.time() * 1e6)) else ""


def _tally(run: Run) -> str:
    parts = [f"{n} {word}" for n, word in ((run.failures, "failed"), (run.losses, "lost")) if n]
    return f" ({', '.join(parts)})" if parts else ""


def _attempt(attempt: Attempt) -> None:
    took = elapsed(attempt.started_at, attempt.ended_at, time.time())
    ended = exit_words(attempt.exited) if attempt.HasField("exited") else "no word of its end yet"
    _section(f"Attempt {attempt.number}")
    say(f"  on         {escaped(attempt.worker_id)} ({escaped(attempt.host)}), {took}")
    say(f"  ended      {escaped(ended)}")
    say(f"  command    {escaped(shlex.join(attempt.command))}")
    say(f"  directory  {escaped(attempt.directory)}")
    if attempt.HasField("exited") and attempt.exited.HasField("counts"):
        say(f"  counted    {counts_words(attempt.exited.counts)}")
    tail = attempt.exited.stderr_tail.rstrip("\n")
    if tail:
        say("  stderr")
        for line in tail.split("\n"):
            say(f"    {escaped(line)}", "yellow")


def _timeline(facts: list[Fact]) -> None:
    """Of the progress only the newest; the rest is in `events tail`."""
    progressed = [i for i, fact in enumerate(facts) if fact.WhichOneof("kind") == "attempt_progressed"]
    left_out = set(progressed[:-1])
    day = ""
    for index, fact in enumerate(facts):
        if index in left_out:
            continue
        if day != (day := local_time(fact.at)[:10]):
            say(f"  {day}", "dim")
        say_fact(fact, margin="  ")


def _section(title: str) -> None:
    say()
    say(title, "bold")
