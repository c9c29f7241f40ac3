"""`runspine trace`: spans of a run, printed or sent to an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find
from runspine.cli.ui.screen import echo, echo_json, has_ended, note
from runspine.errors import RefusedError
from runspine.eventlog.admission import accepted_facts
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS, attempts_subject, run_subject
from runspine.rpc.trainer_client import Client
from runspine.text.values import escaped
from runspine.text.values import span as duration
from runspine.traces.otlp import place_of, request_of, send
from runspine.traces.spans import Span, spans_of
from runspine.wire.v1.facts_pb2 import Fact

ENDS = ("run_completed", "run_failed", "run_cancelled")


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--to", "url", metavar="URL", envvar="OTEL_EXPORTER_OTLP_ENDPOINT", help="OTLP/HTTP collector.")
@click.option(
    "-f", "--follow", is_flag=True, help="Wait for the end of RUN; without RUN, trace every run as it ends."
)
@json_option
def trace(runs: tuple[str, ...], url: str | None, follow: bool, as_json: bool) -> None:
    """Show ended runs as traces of waits, attempts and uploads, or send them to a collector.

    Trace ids are derived from run ids, so that sending twice gives the same trace. Headers are read
    from OTEL_EXPORTER_OTLP_HEADERS.

    \b
    runspine trace RUN
    runspine trace --follow --to http://127.0.0.1:4318
    """
    if not runs and not (follow and url):
        raise click.UsageError("give a RUN, or --follow with --to")
    if url:
        place_of(url)
    with Client() as client:
        for run_id in _chosen(client, runs, follow):
            _emit(run_id, spans_of(run_id, _facts(client, run_id)), url, as_json)


def _chosen(client: Client, runs: Sequence[str], follow: bool) -> Iterator[str]:
    if not runs:
        yield from _ending(client)
    for text in runs:
        run = find(client, text).run
        if not has_ended(run):
            if not follow:
                raise RefusedError(f"run {run.id} has not ended: --follow waits for it")
            for _ in client.watch(run.id, until_end=True):
                pass
        yield run.id


def _ending(client: Client) -> Iterator[str]:
    """Yield the id of every run that ends from now on."""
    after = next(info.last_sequence for info in client.describe_log() if info.name == RUNS)
    for message in client.watch(after=after):
        if any(fact.WhichOneof("kind") in ENDS for fact in message.facts):
            yield message.run_id


def _facts(client: Client, run_id: str) -> Iterator[Fact]:
    subjects = {
        RUNS: run_subject(run_id),
        ATTEMPTS: attempts_subject(run_id),
        ARTIFACTS: f"artifacts.{run_id}",
    }
    for stream, subject in subjects.items():
        for _, fact in accepted_facts(client.read_log(stream, subject=subject)):
            yield fact


def _emit(run_id: str, spans: Sequence[Span], url: str | None, as_json: bool) -> None:
    body = request_of({run_id: spans})
    if url:
        send(url, body)
        if as_json:
            echo_json({"run_id": run_id, "spans": len(spans), "to": url})
        else:
            note(f"{run_id}: {len(spans)} spans sent to {url}")
    elif as_json:
        echo_json(body)
    else:
        for line in drawn(spans):
            echo(line)


def drawn(spans: Sequence[Span]) -> Iterator[str]:
    """Yield a line for each span, indented below its parent, in order of time."""
    root = spans[0]

    def below(parent: Span, depth: int) -> Iterator[str]:
        after = (parent.began - root.began) / 1e6
        took = duration((parent.ended - parent.began) / 1e6)
        error = f"  {escaped(parent.error)}" if parent.error else ""
        yield f"{after:>10.3f} s  {took:>8}  {'  ' * depth}{escaped(parent.name)}{error}"
        for span in sorted((s for s in spans if s.parent == parent.key), key=lambda s: s.began):
            yield from below(span, depth + 1)

    return below(root, 0)
