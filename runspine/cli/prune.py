"""`runspine prune`: see what the rules would remove, remove it, take it back."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from runspine.artifact_client import ArtifactClient
from runspine.cli.artifact_words import undo_words
from runspine.cli.edge import FAILED, json_option
from runspine.cli.screen import note, say, say_json, table
from runspine.cli.text import age, escaped, middle_cut, short_ids, size
from runspine.client import Client
from runspine.ids import is_ulid
from runspine.plain import to_plain
from runspine.wire.v1 import artifacts_pb2 as wire


@click.command()
@click.argument("reference", required=False, default="")
@click.option("--run", default="", help="Only what goes of this run.")
@click.option("--project", default="", help="Only what goes of this project.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--undo", "undone", default="", metavar="BATCH|REFERENCE", help="Take a prune back.")
@json_option
@click.pass_context
def prune(
    ctx: click.Context, reference: str, run: str, project: str, dry_run: bool, yes: bool, undone: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Remove what the retention rules no longer keep, or one artifact by hand.

    Shows first what would go, and asks. Pinned and named artifacts stay, and so do the best and the
    latest checkpoint. What went can be had back until the undo window ends.
    """
    if undone and (reference or run or project):
        raise click.UsageError("--undo takes back a batch or one artifact; leave the rest away")
    with Client() as client:
        remote = ArtifactClient(client)
        if undone:
            ctx.exit(_undo(remote, undone, as_json))
        if reference:
            if dry_run or not (yes or _agreed(f"prune {reference}?")):
                note("nothing was pruned; --yes does it")
                return
            _say_pruned(remote.prune(wire.PruneRequest(reference=reference)), as_json)
            return
        plan = remote.prune_plan(run, project)
        if dry_run or not yes:
            _say_plan(plan, as_json)
            if dry_run or as_json or not plan.items or not _agreed("prune these?"):
                return
        # The token makes sure that nothing else goes than what was shown.
        request = wire.PruneRequest(run=run, project=project, token="" if yes else plan.token)
        _say_pruned(remote.prune(request), as_json)


def _agreed(question: str) -> bool:
    return sys.stdin.isatty() and click.confirm(question, err=True)


def _undo(remote: ArtifactClient, what: str, as_json: bool) -> int:
    batch = is_ulid(what.upper()) and any(
        each.batch == what.upper() for each in remote.retention(run="").undoable
    )
    answer = remote.undo(batch=what.upper()) if batch else remote.undo(reference=what)
    if as_json:
        say_json(to_plain(answer))
    else:
        for artifact in answer.restored:
            say(f"back  {artifact.digest[:12]}  {escaped(artifact.name)} of run {artifact.run_id}")
        for why in answer.lost:
            say(f"lost  {escaped(why)}", "red")
    return FAILED if answer.lost else 0


def _say_plan(plan: wire.PrunePlan, as_json: bool) -> None:
    if as_json:
        say_json(to_plain(plan))
        return
    for notice in plan.notices:
        note(f"notice: {escaped(notice)}")
    if not plan.items:
        say("nothing would be pruned")
        return
    show_items(plan.items)
    freed = f"{size(plan.freed_bytes)} would be free when they can no longer be had back"
    say(f"{len(plan.items):,} artifacts would be pruned; {freed}")


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


def _say_pruned(answer: wire.PruneResponse, as_json: bool) -> None:
    if as_json:
        say_json(to_plain(answer))
        return
    if not answer.pruned:
        say("nothing was pruned")
    else:
        freed = f"{size(answer.freed_bytes)} will be free when they can no longer be had back"
        say(f"{len(answer.pruned):,} artifacts pruned; {freed}")
        say(f"they {undo_words(answer.undo_until)}: runspine prune --undo {answer.batch}")
    for why in answer.left:
        note(f"left alone: {escaped(why)}")
