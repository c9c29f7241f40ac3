"""The WORK stream: publishes, lists and withdraws offers, with one durable consumer for each pool."""

from __future__ import annotations

import contextlib
import json

from google.protobuf.message import DecodeError

from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.reads import DIRECT_SECONDS
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.subjects import WORK, work_subject
from runspine.services.orchestrator.core.offer_plan import PostedOffer
from runspine.services.orchestrator.edges import metrics
from runspine.wire.v1.run_pb2 import Offer

SECOND = 1_000_000_000
NOT_DELETED = 10057


def _parse(data: bytes) -> Offer:
    """The offer; an empty one, which no run wants, when the data is none."""
    try:
        return Offer.FromString(data)
    except DecodeError:
        metrics.OFFERS_UNREADABLE.inc()
        return Offer()


class OfferStream:
    """Offers on the WORK stream."""

    def __init__(self, link: NatsConnection, publisher: Publisher, ack_seconds: float) -> None:
        self._link = link
        self._publisher = publisher
        self._ack_seconds = ack_seconds
        self._pools: set[str] = set()
        # Sequence of the last known message on the stream.
        self._last = 0

    async def ensure_pool(self, pool: str) -> None:
        """Workers of a pool share one durable consumer."""
        if pool in self._pools:
            return
        config = {
            "durable_name": f"pool-{pool}",
            "filter_subject": f"work.{pool}.>",
            "ack_policy": "explicit",
            "ack_wait": int(self._ack_seconds * SECOND),
            "max_deliver": -1,
            "max_ack_pending": 10_000,
        }
        verb = f"CONSUMER.DURABLE.CREATE.{WORK}.pool-{pool}"
        await ask(self._link, verb, {"stream_name": WORK, "config": config})
        self._pools.add(pool)

    async def posted(self) -> dict[str, list[PostedOffer]]:
        """Every offer on the stream, by pool, in the order in which workers receive them."""
        found: dict[str, list[PostedOffer]] = {}
        if not self._last:
            self._last = (await ask(self._link, f"STREAM.INFO.{WORK}"))["state"]["last_seq"]
        body = json.dumps({"batch": 1000, "seq": 1, "next_by_subj": "work.>"}).encode()
        # Any replica may answer: an offer is a hint, and to post or withdraw it twice changes nothing.
        answers = self._link.replies(f"$JS.API.DIRECT.GET.{WORK}", body, DIRECT_SECONDS)
        async for headers, data in answers:
            sequence = int(headers["Nats-Sequence"])
            self._last = max(self._last, sequence)
            # By its subject: that is the queue in which workers receive it.
            pool = headers["Nats-Subject"].split(".")[1]
            found.setdefault(pool, []).append(PostedOffer(sequence, _parse(data)))
        return found

    async def post(self, offer: Offer) -> None:
        """Publish an offer. Its message id contains the stream's last sequence: two orchestrators that see
        the same stream publish it once, and publishing it again later is a new message."""
        position = await self._publisher.publish(
            work_subject(offer.pool, offer.priority),
            offer.SerializeToString(),
            {MESSAGE_ID: f"{offer.run_id}:{offer.attempt}:{self._last}"},
        )
        self._last = max(self._last, position)

    async def withdraw(self, sequence: int) -> None:
        """Delete an offer. One that a worker acknowledged meanwhile is already gone, which is no error."""
        with contextlib.suppress(ServerRefusedError):
            await ask(
                self._link,
                f"STREAM.MSG.DELETE.{WORK}",
                {"seq": sequence, "no_erase": True},
                final=(NOT_DELETED,),
            )
