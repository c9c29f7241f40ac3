"""`runspine checkpoints`: the registry of checkpoints with scores and origins."""

from __future__ import annotations

import itertools

import click

from runspine.cli.errors import json_option
from runspine.cli.listing_group import ListingGroup
from runspine.cli.ui.artifact_text import integrity_cell
from runspine.cli.ui.screen import Cell, echo, echo_json, note, table
from runspine.domain.artifact import IMPORTS
from runspine.domain.defaults import DEFAULT_ACTOR
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.artifacts import holders
from runspine.text.values import age, escaped, middle_cut, number, short_ids, size, when
from runspine.wire.v1 import artifacts_pb2 as wire

# Origin of a score, as shown in tables.
SOURCES = {"evaluation": "evaluated", "checkpoint": "training", "training": "training"}


@click.group(cls=ListingGroup)
def checkpoints() -> None:
    """The registry of checkpoints, by env and algorithm, best first.

    REFERENCE is a digest or its prefix, RUN:best, RUN:latest, RUN:step-N, ENV/ALGO:best,
    ENV/ALGO:latest, or an alias.
    """


@checkpoints.command("list")
@click.option("--env", default="", help="Only this env.")
@click.option("--algo", default="", help="Only this algorithm.")
@click.option("--run", default="", help="All checkpoints of this run.")
@click.option("--project", default="", help="Only this project.")
@click.option("--dataset", default="", help="Only those that learned from this dataset: name or digest.")
@click.option("--newest", is_flag=True, help="Sort by age, newest first.")
@click.option(
    "--all", "everything", is_flag=True, help="All checkpoints, not only the best and latest of a run."
)
@click.option("--pruned", is_flag=True, help="Include pruned checkpoints.")
@click.option(
    "--limit",
    type=click.IntRange(1, 5000),
    default=100,
    show_default=True,
    help="Maximum number of checkpoints.",
)
@json_option
def list_(
    env: str, algo: str, run: str, project: str, dataset: str, newest: bool, everything: bool, pruned: bool,
    limit: int, as_json: bool,
) -> None:  # fmt: skip
    """List checkpoints."""
    request = wire.ListCheckpointsRequest(
        env=env,
        algo=algo,
        run=run,
        project=project,
        dataset=dataset,
        order=wire.NEWEST_FIRST if newest else wire.BEST_FIRST,
        with_pruned=pruned,
        all=everything,
        page_size=limit,
    )
    with Client() as client:
        found = ArtifactClient(client).checkpoints(request)
    if as_json:
        echo_json({"checkpoints": [to_plain(card) for card in found.cards], "total": found.total})
        return
    if not found.cards:
        note("no checkpoints match" if env or algo or run or project or dataset else "no checkpoints yet")
        return
    _show_groups(list(found.cards))
    if len(found.cards) < found.total:
        note(f"{len(found.cards)} of {found.total:,}; --limit shows more")


@checkpoints.command()
@click.argument("reference")
@json_option
def show(reference: str, as_json: bool) -> None:
    """Show one checkpoint in detail."""
    with Client() as client:
        found = ArtifactClient(client).get(reference)
    if as_json:
        echo_json(to_plain(found))
    elif found.HasField("card"):
        show_card(found.card)
    else:
        kind = escaped(found.artifact.kind)
        echo(f"{found.artifact.digest[:12]} is a {kind}: use `runspine artifacts show`")


@checkpoints.command()
@click.argument("name")
@click.argument("reference", required=False, default="")
@click.option("--remove", is_flag=True, help="Remove the alias.")
@json_option
def alias(name: str, reference: str, remove: bool, as_json: bool) -> None:
    """Give a checkpoint an alias. Checkpoints with an alias are never pruned."""
    if bool(reference) == remove:
        raise click.UsageError("give a REFERENCE, or --remove")
    with Client() as client:
        artifact = ArtifactClient(client).set_alias(name, reference)
    if as_json:
        echo_json({"alias": name, "artifact": to_plain(artifact)})
    elif remove:
        echo(f"{escaped(name)} removed")
    else:
        echo(f"{escaped(name)} is {artifact.digest[:12]}, step {artifact.step:,} of run {artifact.run_id}")


@checkpoints.command()
@click.argument("reference")
@click.option("--actor", default=DEFAULT_ACTOR, show_default=True, help="Name of the actor.")
@click.option("--env", default="", help="Refuse checkpoints of other envs.")
@json_option
def activate(reference: str, actor: str, env: str, as_json: bool) -> None:
    """Let an actor play with a checkpoint in its env, after verifying it.

    An actor has one checkpoint in each env. `runspine play ENV --actor NAME` plays with it.
    """
    with Client() as client:
        answer = ArtifactClient(client).activate(reference, actor, env)
    if as_json:
        echo_json(to_plain(answer))
        return
    echo(f"{escaped(actor)} plays in {escaped(answer.card.env)} with:")
    show_card(answer.card)
    note(f"play: runspine play {answer.card.env} --actor {actor}")


@checkpoints.command()
@json_option
def actors(as_json: bool) -> None:
    """List actors and their checkpoints."""
    with Client() as client:
        found = ArtifactClient(client).actors()
    if as_json:
        echo_json({"actors": [to_plain(actor) for actor in found]})
        return
    if not found:
        note("no actor has a checkpoint: `runspine checkpoints activate REFERENCE`")
        return
    rows = [
        [
            actor.name,
            actor.env,
            actor.card.algo,
            score_text(actor.card),
            actor.card.artifact.digest[:12],
        ]
        for actor in found
    ]
    table(["ACTOR", "ENV", "ALGO", "RETURN", "CHECKPOINT"], rows, right=("RETURN",))


def score_text(card: wire.CheckpointCard) -> str:
    if not card.HasField("score"):
        return ""
    spread = f" ± {number(card.score.std, 3)}" if card.score.HasField("std") else ""
    return f"{number(card.score.mean)}{spread}"


def show_card(card: wire.CheckpointCard) -> None:
    artifact = card.artifact
    cell = integrity_cell(artifact)
    echo(
        f"{cell.text}  {escaped(card.env)} / {escaped(card.algo)}  {score_text(card)}",
        f"bold {cell.style}".strip(),
    )
    for label, text in (
        ("digest", artifact.digest),
        ("names", ", ".join(escaped(name) for name in card.aliases)),
        ("return", _score_sentence(card)),
        ("step", f"{artifact.step:,}" if artifact.step else ""),
        ("made", when(artifact.produced_at)),
        (
            "run",
            f"{artifact.run_id}, attempt {artifact.attempt}, {escaped(card.run_name)}"
            if not card.source
            else "",
        ),
        ("imported", escaped(card.source)),
        ("parent", _parent_text(card)),
        ("dataset", _dataset_text(card)),
        ("seed", str(card.seed) if card.HasField("seed") else ""),
        ("project", escaped(card.project)),
        ("runners", ", ".join(_runner_text(fit) for fit in card.runners)),
        ("file", f"{escaped(artifact.name)}, {size(artifact.size)}"),
        ("held by", ", ".join(holders(artifact))),
        ("refused", escaped(card.obstacle)),
    ):
        if text:
            echo(f"  {label:<10} {text}", "red" if label == "refused" else "")


def _score_sentence(card: wire.CheckpointCard) -> str:
    if not card.HasField("score"):
        return "unknown"
    if card.score.source == "evaluation":
        return f"{score_text(card)} over {card.score.episodes:,} evaluated episodes"
    return f"{score_text(card)} in training"


def _parent_text(card: wire.CheckpointCard) -> str:
    if not card.HasField("parent"):
        return ""
    own = card.parent.run_id == card.artifact.run_id
    if card.parent.run_id.startswith(IMPORTS):
        return f"{card.parent.digest[:12]}, {card.parent.run_id} (warm start)"
    where = f"attempt {card.parent.attempt}" if own else f"run {card.parent.run_id} (warm start)"
    return f"{card.parent.digest[:12]}, step {card.parent.step:,} of {where}"


def _dataset_text(card: wire.CheckpointCard) -> str:
    if not card.HasField("dataset"):
        return ""
    return f"{escaped(card.dataset.name) or 'unnamed'} ({card.dataset.digest[:12]})"


def _runner_text(fit: wire.RunnerFit) -> str:
    return f"{escaped(fit.runner)} ({', '.join(fit.uses)})" if fit.uses else escaped(fit.runner)


def _show_groups(cards: list[wire.CheckpointCard]) -> None:
    first = True
    short = short_ids(card.artifact.run_id for card in cards)
    for (env, algo), group in itertools.groupby(cards, key=lambda card: (card.env, card.algo)):
        if not first:
            echo()
        first = False
        echo(f"{escaped(env) or '(no env)'} / {escaped(algo) or '(no algorithm)'}", "bold")
        headings = ["RETURN", "FROM", "STEP", "AGE", "STATE", "CHECKPOINT", "RUN", "SEED", "NAMES"]
        table(
            headings,
            [_row(card, short[card.artifact.run_id]) for card in group],
            right=("RETURN", "STEP", "AGE", "SEED"),
        )


def _row(card: wire.CheckpointCard, run: str) -> list[Cell | str]:
    artifact = card.artifact
    overall = [name.rpartition(":")[2] for name in card.aliases if "/" in name]
    names = [name for name in card.aliases if "/" not in name and name not in overall]
    names += [f"{name} of all" for name in overall]
    return [
        score_text(card),
        SOURCES.get(card.score.source, "") if card.HasField("score") else "",
        f"{artifact.step:,}" if artifact.step else "",
        age(artifact.produced_at),
        integrity_cell(artifact),
        artifact.digest[:12],
        middle_cut(card.source, 40) if card.source else run,
        str(card.seed) if card.HasField("seed") else "",
        ", ".join([*names, *(["pinned"] if artifact.pinned else [])]) or artifact.flaw,
    ]
