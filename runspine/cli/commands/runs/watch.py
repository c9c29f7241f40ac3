"""`runspine watch`: follow one run to its end, or all runs."""

from __future__ import annotations

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find
from runspine.cli.ui.follow import feed, follow_run
from runspine.rpc.trainer_client import Client


@click.command()
@click.argument("run", required=False)
@json_option
@click.pass_context
def watch(ctx: click.Context, run: str | None, as_json: bool) -> None:
    """Follow one run until it ends, or the facts of all runs.

    With RUN the exit code is 0 when it completed, and 1 when it failed or was cancelled.
    """
    with Client() as client:
        if run is None:
            ctx.exit(feed(client, as_json))
        found = find(client, run).run
        ctx.exit(follow_run(client, found, as_json))
