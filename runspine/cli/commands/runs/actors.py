"""`runspine actors`: list the actors that can act in an env."""

from __future__ import annotations

from dataclasses import asdict

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.registry import known_actors
from runspine.cli.ui.screen import echo_json, note, table
from runspine.play.actor_names import checkpoint_of
from runspine.play.actors import ActorInfo
from runspine.rpc.trainer_client import Client
from runspine.text.values import number


@click.command()
@click.option("--env", default="", help="Only actors for this env.")
@click.option(
    "--limit",
    type=click.IntRange(1, 5000),
    default=50,
    show_default=True,
    help="Maximum number of policies of each env.",
)
@json_option
def actors(env: str, limit: int, as_json: bool) -> None:
    """List people, scripts, policies and agents; of each env the activated ones first, then the best.

    Checkpoints of runs are listed once they are indexed. Use one with `runspine play ENV --actor`.
    """
    with Client() as client:
        found = known_actors(client, env, limit)
    if as_json:
        echo_json({"actors": [asdict(actor) for actor in found]})
        return
    rows = [_row(actor) for actor in found]
    table(["ACTOR", "WHAT", "ENV", "RETURN", "OBSERVES", "ACTS", "NAMES"], rows, right=("RETURN",))
    if not any(actor.kind in ("policy", "bdi") for actor in found):
        where = f" in {env}" if env else ""
        note(f"no policies{where} yet: train one, or import one with `runspine import`")


def _row(actor: ActorInfo) -> list[str]:
    digest = checkpoint_of(actor.name)
    return [
        actor.name.replace(digest, digest[:12]) if digest else actor.name,
        actor.title,
        actor.env or "any",
        "" if actor.score is None else number(actor.score),
        actor.observes,
        actor.acts,
        ", ".join(actor.activated),
    ]
