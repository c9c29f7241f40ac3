"""`runspine actors`: who can act in an env."""

from __future__ import annotations

from dataclasses import asdict

import click

from runspine.actors import ActorInfo, actors_of
from runspine.artifact_client import ArtifactClient
from runspine.cli.edge import json_option
from runspine.cli.screen import note, say_json, table
from runspine.cli.text import number
from runspine.client import Client
from runspine.wire.v1.artifacts_pb2 import ListCheckpointsRequest


@click.command()
@click.option("--env", default="", help="Only who can act in this environment.")
@click.option(
    "--limit", type=click.IntRange(1, 5000), default=50, show_default=True, help="Policies at most."
)
@json_option
def actors(env: str, limit: int, as_json: bool) -> None:
    """People, chance, and the policies and BDI agents of the registry, the best of each env first.

    A run's checkpoints are here as soon as they are indexed; give one to `runspine play ENV --actor`.
    """
    with Client() as client:
        found = known_actors(client, env, limit)
    if as_json:
        say_json({"actors": [asdict(actor) for actor in found]})
        return
    rows = [_row(actor) for actor in found]
    table(["ACTOR", "WHAT", "ENV", "RETURN", "OBSERVES", "ACTS", "NAMES"], rows, right=("RETURN",))
    if not any(actor.kind in ("policy", "bdi") for actor in found):
        where = f" in {env}" if env else ""
        note(f"no policies{where} yet: train one, or bring one with `runspine import`")


def known_actors(client: Client, env: str, limit: int) -> list[ActorInfo]:
    registry = ArtifactClient(client)
    cards = registry.checkpoints(ListCheckpointsRequest(env=env, page_size=limit)).cards
    return actors_of(cards, registry.actors(), env)


def _row(actor: ActorInfo) -> list[str]:
    kind, _, digest = actor.name.partition(":")
    return [
        f"{kind}:{digest[:12]}" if digest else kind,
        actor.title,
        actor.env or "any",
        "" if actor.score is None else number(actor.score),
        actor.observes,
        actor.acts,
        ", ".join(actor.activated),
    ]
