"""Which runs a comparison is about: named one by one, or by what they have in common."""

from __future__ import annotations

from collections.abc import Sequence

import click

from runspine.cli.ask import find
from runspine.client import Client
from runspine.compare.groups import Member
from runspine.plain import plain_value
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import ListRequest

FIELDS = ("env", "algo", "runner", "project", "name")
MOST_RUNS = 500


def select(client: Client, named: Sequence[str], groups: Sequence[str]) -> tuple[list[Run], set[str]]:
    """The runs, each once, and the ids of those that were named themselves."""
    if not named and not groups:
        raise click.UsageError("name runs, or choose them with --group, such as --group algo=ppo")
    own = [find(client, text).run for text in named]
    found = {run.id: run for run in own}
    for group in groups:
        chosen = _list(client, group)
        if not chosen:
            raise click.UsageError(f"--group {group}: no run has this; `runspine ls` shows what there is")
        found |= {run.id: run for run in chosen}
    return list(found.values()), {run.id for run in own}


def _list(client: Client, group: str) -> list[Run]:
    request = ListRequest(page_size=MOST_RUNS)
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
    if page.total > MOST_RUNS:
        raise click.UsageError(f"--group {group}: {page.total:,} runs; narrow it to {MOST_RUNS} or fewer")
    # Oldest first, so that groups come in the order in which they were made.
    return [summary.run for summary in reversed(page.runs)]


def member_of(run: Run) -> Member:
    spec = run.spec
    return Member(
        run_id=run.id,
        name=run.name,
        env=spec.env,
        fields={
            "env": spec.env,
            "algo": spec.algo,
            "runner": spec.runner,
            **({"command": " ".join(spec.command)} if spec.command else {}),
            **{f"env_kwargs.{key}": plain_value(value) for key, value in spec.env_kwargs.items()},
            **{f"params.{key}": plain_value(value) for key, value in spec.params.items() if key != "seed"},
        },
        extra={
            "project": spec.project,
            "name": run.name,
            "seed": spec.seed if spec.HasField("seed") else 1,
            "total_steps": spec.total_steps,
            **{f"label.{key}": value for key, value in run.labels.items()},
        },
    )
