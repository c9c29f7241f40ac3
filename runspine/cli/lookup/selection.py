"""Select runs by name or by --group filters."""

from __future__ import annotations

from collections.abc import Sequence

import click

from runspine.cli.lookup.run import find
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import ListRequest

FIELDS = ("env", "algo", "runner", "project", "name")
MAX_RUNS = 500


def select(client: Client, named: Sequence[str], groups: Sequence[str]) -> tuple[list[Run], set[str]]:
    """Return the selected runs without duplicates, and the ids of those given by name."""
    if not named and not groups:
        raise click.UsageError("name runs, or choose them with --group, such as --group algo=ppo")
    own = [find(client, text).run for text in named]
    found = {run.id: run for run in own}
    for group in groups:
        chosen = _list(client, group)
        if not chosen:
            raise click.UsageError(f"--group {group}: no run matches; `runspine ls` lists runs")
        found |= {run.id: run for run in chosen}
    return list(found.values()), {run.id for run in own}


def _list(client: Client, group: str) -> list[Run]:
    request = ListRequest(page_size=MAX_RUNS)
    for part in group.split(","):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise click.UsageError(
                f"--group {group}: expected env=, algo=, runner=, project=, name= or a label="
            )
        if key in FIELDS:
            setattr(request, key, value)
        else:
            request.labels[key] = value
    page = next(client.pages(request))
    if page.total > MAX_RUNS:
        raise click.UsageError(f"--group {group}: {page.total:,} runs; narrow it to {MAX_RUNS} or fewer")
    # Oldest first, so that groups appear in submission order.
    return [summary.run for summary in reversed(page.runs)]
