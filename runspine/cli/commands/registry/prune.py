"""`runspine prune`: remove artifacts that no retention rule keeps, and undo it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from runspine.cli.errors import FAILED, json_option
from runspine.cli.ui.screen import echo, echo_json, note, table
from runspine.ids import is_ulid
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.artifacts import undo_text
from runspine.text.values import age, escaped, middle_cut, short_ids, size
from runspine.wire.v1 import artifacts_pb2 as wire


@click.command()
@click.argument("reference", required=False, default="")
@click.option("--run", default="", help="Only artifacts of this run.")
@click.option("--project", default="", help="Only artifacts of this project.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--undo", "undone", default="", metavar="BATCH|REFERENCE", help="Undo a prune.")
@json_option
@click.pass_context
def prune(
    ctx: click.Context, reference: str, run: str, project: str, dry_run: bool, yes: bool, undone: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Remove artifacts that no retention rule keeps, or one artifact.

    Lists what would be removed and asks for confirmation. Artifacts with a pin or an alias and the best
    and latest checkpoints are kept. A prune can be undone until its undo window ends.
    """
    if undone and (reference or run or project):
        raise click.UsageError("--undo takes a batch or one artifact, and no other option")
    with Client() as client:
        remote = ArtifactClient(client)
        if undone:
            ctx.exit(_undo(remote, undone, as_json))
        if reference:
            if dry_run or not (yes or _agreed(f"prune {reference}?")):
                note("nothing was pruned; confirm with --yes")
                return
            _echo_pruned(remote.prune(wire.PruneRequest(reference=reference)), as_json)
            return
        plan = remote.prune_plan(run, project)
        if dry_run or not yes:
            _echo_plan(plan, as_json)
            if dry_run or as_json or not plan.items or not _agreed("prune these?"):
                return
        # The token ensures that only what was shown is removed.
        request = wire.PruneRequest(run=run, project=project, token="" if yes else plan.token)
        _echo_pruned(remote.prune(request), as_json)


def _agreed(question: str) -> bool:
    return sys.stdin.isatty() and click.confirm(question, err=True)


def _undo(remote: ArtifactClient, what: str, as_json: bool) -> int:
    batch = is_ulid(what.upper()) and any(
        each.batch == what.upper() for each in remote.retention(run="").undoable
    )
    answer = remote.undo(batch=what.upper()) if batch else remote.undo(reference=what)
    if as_json:
        echo_json(to_plain(answer))
    else:
        for artifact in answer.restored:
            echo(f"restored  {artifact.digest[:12]}  {escaped(artifact.name)} of run {artifact.run_id}")
        for why in answer.lost:
            echo(f"lost  {escaped(why)}", "red")
    return FAILED if answer.lost else 0


def _echo_plan(plan: wire.PrunePlan, as_json: bool) -> None:
    if as_json:
        echo_json(to_plain(plan))
        return
    for notice in plan.notices:
        note(f"notice: {escaped(notice)}")
    if not plan.items:
        echo("nothing would be pruned")
        return
    show_items(plan.items)
    freed = f"{size(plan.freed_bytes)} would be freed when the undo window ends"
    echo(f"{len(plan.items):,} artifacts would be pruned; {freed}")


def show_items(items: Sequence[wire.PruneItem]) -> None:
    short = short_ids(item.artifact.run_id for item in items)
    rows = [
        [
            short[item.artifact.run_id],
            item.artifact.kind,
            middle_cut(item.artifact.name, 40),
            size(item.artifact.size),
            age(item.artifact.produced_at),
            item.rule + (f" ({item.scope})" if item.scope else ""),
        ]
        for item in items
    ]
    table(["RUN", "KIND", "NAME", "SIZE", "AGE", "BY"], rows, right=("SIZE", "AGE"))


def _echo_pruned(answer: wire.PruneResponse, as_json: bool) -> None:
    if as_json:
        echo_json(to_plain(answer))
        return
    if not answer.pruned:
        echo("nothing was pruned")
    else:
        freed = f"{size(answer.freed_bytes)} will be freed when the undo window ends"
        echo(f"{len(answer.pruned):,} artifacts pruned; {freed}")
        echo(f"they {undo_text(answer.undo_until)}: runspine prune --undo {answer.batch}")
    for why in answer.left:
        note(f"skipped: {escaped(why)}")
