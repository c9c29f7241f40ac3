"""`runspine checkpoints`: what can be loaded, how well it does, and where it comes from."""

from __future__ import annotations

import itertools

import click

from runspine.artifact_client import ArtifactClient
from runspine.cli.artifact_words import held, integrity_cell
from runspine.cli.edge import json_option
from runspine.cli.listing import ListingGroup
from runspine.cli.screen import Cell, note, say, say_json, table
from runspine.cli.text import age, escaped, middle_cut, number, short_ids, size, when
from runspine.client import Client
from runspine.plain import to_plain
from runspine.wire.v1 import artifacts_pb2 as wire

# Where a score is from, in a table.
SOURCES = {"evaluation": "evaluated", "checkpoint": "training", "training": "training"}


@click.group(cls=ListingGroup)
def checkpoints() -> None:
    """The registry of checkpoints, by env and algorithm, the best first.

    REFERENCE is a digest or its beginning, RUN:best, RUN:latest, RUN:step-N, ENV/ALGO:best,
    ENV/ALGO:latest, or an alias.
    """


@checkpoints.command("list")
@click.option("--env", default="", help="Only this environment.")
@click.option("--algo", default="", help="Only this algorithm.")
@click.option("--run", default="", help="All checkpoints of this run.")
@click.option("--project", default="", help="Only this project.")
@click.option("--newest", is_flag=True, help="The newest first.")
@click.option("--all", "everything", is_flag=True, help="Every one, not only the best and latest of a run.")
@click.option("--pruned", is_flag=True, help="Also what was pruned.")
@click.option(
    "--limit", type=click.IntRange(1, 5000), default=100, show_default=True, help="How many at most."
)
@json_option
def list_(
    env: str, algo: str, run: str, project: str, newest: bool, everything: bool, pruned: bool, limit: int,
    as_json: bool,
) -> None:  # fmt: skip
    """List checkpoints."""
    request = wire.ListCheckpointsRequest(
        env=env,
        algo=algo,
        run=run,
        project=project,
        order=wire.NEWEST_FIRST if newest else wire.BEST_FIRST,
        with_pruned=pruned,
        all=everything,
        page_size=limit,
    )
    with Client() as client:
        found = ArtifactClient(client).checkpoints(request)
    if as_json:
        say_json({"checkpoints": [to_plain(card) for card in found.cards], "total": found.total})
        return
    if not found.cards:
        note("no checkpoints match" if env or algo or run or project else "no checkpoints yet")
        return
    _show_groups(list(found.cards))
    if len(found.cards) < found.total:
        note(f"{len(found.cards)} of {found.total:,}; --limit shows more")


@checkpoints.command()
@click.argument("reference")
@json_option
def show(reference: str, as_json: bool) -> None:
    """The card of one checkpoint."""
    with Client() as client:
        found = ArtifactClient(client).get(reference)
    if as_json:
        say_json(to_plain(found))
    elif found.HasField("card"):
        show_card(found.card)
    else:
        kind = escaped(found.artifact.kind)
        say(f"{found.artifact.digest[:12]} is a {kind}: `runspine artifacts show` has it")


@checkpoints.command()
@click.argument("name")
@click.argument("reference", required=False, default="")
@click.option("--remove", is_flag=True, help="Take the name away.")
@json_option
def alias(name: str, reference: str, remove: bool, as_json: bool) -> None:
    """Give a checkpoint a name; a named one is never pruned."""
    if bool(reference) == remove:
        raise click.UsageError("give a checkpoint to name, or --remove")
    with Client() as client:
        artifact = ArtifactClient(client).set_alias(name, reference)
    if as_json:
        say_json({"alias": name, "artifact": to_plain(artifact)})
    elif remove:
        say(f"{escaped(name)} names nothing any more")
    else:
        say(f"{escaped(name)} is {artifact.digest[:12]}, step {artifact.step:,} of run {artifact.run_id}")


@checkpoints.command()
@click.argument("reference")
@click.option("--actor", default="default", show_default=True, help="Who shall play with it.")
@click.option("--env", default="", help="Refuse it unless it is for this environment.")
@json_option
def activate(reference: str, actor: str, env: str, as_json: bool) -> None:
    """Make a checkpoint what an actor plays with; it is read and verified first."""
    with Client() as client:
        answer = ArtifactClient(client).activate(reference, actor, env)
    if as_json:
        say_json(to_plain(answer))
        return
    say(f"{escaped(actor)} plays with:")
    show_card(answer.card)


@checkpoints.command()
@json_option
def actors(as_json: bool) -> None:
    """Which checkpoint each actor plays with."""
    with Client() as client:
        found = ArtifactClient(client).actors()
    if as_json:
        say_json({"actors": [to_plain(actor) for actor in found]})
        return
    if not found:
        note("no actor has a checkpoint: `runspine checkpoints activate REFERENCE`")
        return
    rows = [
        [
            actor.name,
            actor.card.env,
            actor.card.algo,
            score_words(actor.card),
            actor.card.artifact.digest[:12],
        ]
        for actor in found
    ]
    table(["ACTOR", "ENV", "ALGO", "RETURN", "CHECKPOINT"], rows, right=("RETURN",))


def score_words(card: wire.CheckpointCard) -> str:
    if not card.HasField("score"):
        return ""
    spread = f" ± {number(card.score.std, 3)}" if card.score.HasField("std") else ""
    return f"{number(card.score.mean)}{spread}"


def show_card(card: wire.CheckpointCard) -> None:
    artifact = card.artifact
    cell = integrity_cell(artifact)
    say(
        f"{cell.text}  {escaped(card.env)} / {escaped(card.algo)}  {score_words(card)}",
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
        ("grew from", _parent_words(card)),
        ("seed", str(card.seed) if card.HasField("seed") else ""),
        ("project", escaped(card.project)),
        ("runners", ", ".join(_fit_words(fit) for fit in card.runners)),
        ("file", f"{escaped(artifact.name)}, {size(artifact.size)}"),
        ("held by", ", ".join(held(artifact))),
        ("refused", escaped(card.obstacle)),
    ):
        if text:
            say(f"  {label:<10} {text}", "red" if label == "refused" else "")


def _score_sentence(card: wire.CheckpointCard) -> str:
    if not card.HasField("score"):
        return "unknown: nobody has said how well it does"
    if card.score.source == "evaluation":
        return f"{score_words(card)} over {card.score.episodes:,} evaluated episodes"
    return f"{score_words(card)}, as training saw it"


def _parent_words(card: wire.CheckpointCard) -> str:
    if not card.HasField("parent"):
        return ""
    own = card.parent.run_id == card.artifact.run_id
    where = f"attempt {card.parent.attempt}" if own else f"run {card.parent.run_id} (warm start)"
    return f"{card.parent.digest[:12]}, step {card.parent.step:,} of {where}"


def _fit_words(fit: wire.RunnerFit) -> str:
    return f"{escaped(fit.runner)} ({', '.join(fit.uses)})" if fit.uses else escaped(fit.runner)


def _show_groups(cards: list[wire.CheckpointCard]) -> None:
    first = True
    short = short_ids(card.artifact.run_id for card in cards)
    for (env, algo), group in itertools.groupby(cards, key=lambda card: (card.env, card.algo)):
        if not first:
            say()
        first = False
        say(f"{escaped(env) or '(no env)'} / {escaped(algo) or '(no algorithm)'}", "bold")
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
        score_words(card),
        SOURCES.get(card.score.source, "") if card.HasField("score") else "",
        f"{artifact.step:,}" if artifact.step else "",
        age(artifact.produced_at),
        integrity_cell(artifact),
        artifact.digest[:12],
        middle_cut(card.source, 40) if card.source else run,
        str(card.seed) if card.HasField("seed") else "",
        ", ".join([*names, *(["pinned"] if artifact.pinned else [])]) or artifact.flaw,
    ]
