"""Requests to the artifacts service that several commands share."""

from __future__ import annotations

import time

from runspine.errors import RefusedError, RunNotFoundError
from runspine.play.actors import ActorInfo, actors_of
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2 import ListCheckpointsRequest

WAIT_SECONDS, POLL_SECONDS = 20.0, 0.3
MAX_CARDS = 5_000


def card_of(client: Client, reference: str) -> wire.CheckpointCard:
    """Return the card of a loadable checkpoint. Raises RunNotFoundError, RefusedError.

    Waits for a checkpoint that was stored moments ago until its verification is complete.
    """
    request = wire.GetArtifactRequest(reference=reference)
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        answer = client.call_artifacts("Get", request, wire.GetArtifactResponse)
        if not answer.HasField("card"):
            raise RunNotFoundError(f"{reference} is a {answer.artifact.kind}, not a checkpoint")
        if not answer.obstacle:
            return answer.card
        soon = answer.artifact.integrity == wire.UNVERIFIED and answer.artifact.keeping == wire.KEPT
        if not soon or time.monotonic() > give_up:
            raise RefusedError(answer.obstacle)
        time.sleep(POLL_SECONDS)


def known_actors(client: Client, env: str, limit: int) -> list[ActorInfo]:
    """Actors for the env, or for all; at most `limit` policies of each env."""
    registry = ArtifactClient(client)
    # The service lists by algorithm: the best of all are known once all are here.
    cards = registry.checkpoints(ListCheckpointsRequest(env=env, page_size=MAX_CARDS)).cards
    found: dict[str, int] = {}
    actors = []
    for actor in actors_of(cards, registry.actors(), env, offered_actors(client)):
        found[actor.env] = found.get(actor.env, 0) + 1
        if not actor.env or found[actor.env] <= limit:
            actors.append(actor)
    return actors


def offered_actors(client: Client) -> list[str]:
    """Scripts and language models that workers offer."""
    return sorted({name for info in client.runners() for name in info.actors})
