"""`runspine why`: one sentence on what a run waits for."""

from __future__ import annotations

import click

from runspine.cli.errors import json_option
from runspine.cli.ui.screen import echo, echo_json
from runspine.clock import now_micros
from runspine.domain.defaults import DEFAULT_POOL
from runspine.domain.run.why import why as explain
from runspine.rpc.trainer_client import Client
from runspine.text.values import escaped
from runspine.wire.v1.run_pb2 import QUEUED, Run
from runspine.wire.v1.trainer_pb2 import ListRequest


@click.command()
@click.argument("run")
@json_option
def why(run: str, as_json: bool) -> None:
    """State in one sentence why RUN waits."""
    with Client() as client:
        found = client.get(run).run
        workers = client.workers()
        ahead = _ahead(client, found) if found.phase == QUEUED else 0
    sentence = explain(found, workers, ahead, now_micros())
    if as_json:
        echo_json({"run": found.id, "why": sentence, "ahead": ahead})
    else:
        echo(escaped(sentence))


def _ahead(client: Client, run: Run) -> int:
    """Waiting runs of its pool that are served before it."""
    pool, place = run.spec.pool or DEFAULT_POOL, (-run.priority, run.queued_at, run.id)
    return sum(
        (other.spec.pool or DEFAULT_POOL) == pool and (-other.priority, other.queued_at, other.id) < place
        for page in client.pages(ListRequest(phases=[QUEUED]))
        for other in (each.run for each in page.runs)
    )
