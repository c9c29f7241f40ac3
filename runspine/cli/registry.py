"""Questions to the artifacts service that the commands on checkpoints share."""

from __future__ import annotations

import time
from collections.abc import Iterable

from runspine.client import Client
from runspine.errors import NotFound, Refused
from runspine.wire.v1 import artifacts_pb2 as wire

PATIENCE, PAUSE = 20.0, 0.3


def card_of(client: Client, reference: str) -> wire.CheckpointCard:
    """The card of a checkpoint that can be loaded. Raises NotFound, Refused.

    One that was stored just now is waited for: it is read whole before anybody may have it.
    """
    request = wire.GetArtifactRequest(reference=reference)
    give_up = time.monotonic() + PATIENCE
    while True:
        answer = client.ask_artifacts("Get", request, wire.GetArtifactResponse)
        if not answer.HasField("card"):
            raise NotFound(f"{reference} is a {answer.artifact.kind}, not a checkpoint")
        if not answer.obstacle:
            return answer.card
        soon = answer.artifact.integrity == wire.UNVERIFIED and answer.artifact.keeping == wire.KEPT
        if not soon or time.monotonic() > give_up:
            raise Refused(answer.obstacle)
        time.sleep(PAUSE)


def url_of(client: Client, reference: str) -> wire.GetUrlResponse:
    return client.ask_artifacts("GetUrl", wire.GetUrlRequest(reference=reference), wire.GetUrlResponse)


def import_file(client: Client, parts: Iterable[wire.ImportRequest]) -> wire.ImportResponse:
    return client.send_artifact(parts)
