"""The WORK stream: publishes, lists and withdraws offers, with one durable consumer for each pool."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from bisect import insort
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.reads import DIRECT_SECONDS
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.subjects import WORK, work_subject
from runspine.services.orchestrator.core.offer_plan import PostedOffer
from runspine.services.orchestrator.edges import metrics
from runspine.wire.v1.run_pb2 import Offer

SECOND = 1_000_000_000
NOT_DELETED = 10057
NOT_MADE = 10012
# Requests of idle workers that wait at once. nats-server allows 512 by default and refuses the others. A pool
# gets more when it has many workers: releases before could not serve it afterwards.
MAX_WAITING = 50_000
MANY_WORKERS = 300
# The stream is read again after this: what another orchestrator posted, and offers that were lost.
LISTING_SECONDS = 1.0
LISTING_BATCH = 1000
# Sequences of withdrawn offers that are remembered for their message ids.
MAX_WITHDRAWN = 10_000


def _parse(data: bytes) -> Offer:
    """The offer; an empty one, which no run wants, when the data is none."""
    try:
        return Offer.FromString(data)
    except DecodeError:
        metrics.OFFERS_UNREADABLE.inc()
        return Offer()


class OfferStream:
    """Offers on the WORK stream, as they were last read and posted since."""

    def __init__(self, link: NatsConnection, publisher: Publisher, ack_seconds: float) -> None:
        self._link = link
        self._publisher = publisher
        self._ack_seconds = ack_seconds
        # Whether the consumer of a pool is made for many workers.
        self._pools: dict[str, bool] = {}
        # Sequence of the last known message on the stream, and the same when the stream was last read.
        self._last = self._listed_to = 0
        self._listed_at = float("-inf")
        self._generation = -1
        self._standing: dict[str, list[PostedOffer]] = {}
        # By run and attempt: the sequence of a copy that is gone.
        self._gone: dict[tuple[str, int], int] = {}

    async def ensure_pool(self, pool: str, workers: int = 0) -> None:
        """Workers of a pool share one durable consumer, which is made for many when there are."""
        many = workers > MANY_WORKERS
        if self._pools.get(pool, -1) >= many:
            return
        verb = f"CONSUMER.DURABLE.CREATE.{WORK}.pool-{pool}"
        for max_waiting in (MAX_WAITING,) if many else (0, MAX_WAITING):
            if await self._make_consumer(verb, pool, max_waiting):
                break
        else:
            # nats-server does not change the number. Offers that workers consider now are delivered again.
            with contextlib.suppress(ServerRefusedError):
                await ask(self._link, f"CONSUMER.DELETE.{WORK}.pool-{pool}")
            await self._make_consumer(verb, pool, MAX_WAITING)
        self._pools[pool] = many

    async def _make_consumer(self, verb: str, pool: str, max_waiting: int) -> bool:
        """Create or update it; false when it exists with another number of waiting requests."""
        config = {
            "durable_name": f"pool-{pool}",
            "filter_subject": f"work.{pool}.>",
            "ack_policy": "explicit",
            "ack_wait": int(self._ack_seconds * SECOND),
            "max_deliver": -1,
            "max_ack_pending": 10_000,
            **({"max_waiting": max_waiting} if max_waiting else {}),
        }
        try:
            await ask(self._link, verb, {"stream_name": WORK, "config": config}, final=(NOT_MADE,))
        except ServerRefusedError as error:
            if error.code != NOT_MADE:
                raise
            if "max waiting" not in error.description:
                raise NatsUnreachableError(f"{verb}: {error}") from error
            return False
        return True

    @property
    def is_due(self) -> bool:
        """Whether the stream is to be read, because that was too long ago or on another connection."""
        old = time.monotonic() - self._listed_at > LISTING_SECONDS
        return old or self._generation != self._link.generation

    def standing(self) -> dict[str, list[PostedOffer]]:
        """Offers by pool as they are known, in the order in which workers receive them."""
        return self._standing

    def forget(self) -> None:
        """What is known is uncertain: the stream is to be read."""
        self._listed_at = float("-inf")

    def claimed(self, claims: set[tuple[str, int]]) -> None:
        """Runs and attempts that were claimed: their workers remove the offers."""
        for pool, entries in self._standing.items():
            left = [each for each in entries if (each.offer.run_id, each.offer.attempt) not in claims]
            if len(left) < len(entries):
                self._standing[pool] = left

    async def posted(self) -> dict[str, list[PostedOffer]]:
        """Every offer on the stream, read from it."""
        generation, found = self._link.generation, dict[str, list[PostedOffer]]()
        if not self._last:
            self._last = (await ask(self._link, f"STREAM.INFO.{WORK}"))["state"]["last_seq"]
        listed_to, first, count = self._last, 1, LISTING_BATCH
        while count == LISTING_BATCH:
            body = json.dumps({"batch": LISTING_BATCH, "seq": first, "next_by_subj": "work.>"}).encode()
            # Any replica may answer: an offer is a hint, and to post or withdraw it twice changes nothing.
            answers = self._link.replies(f"$JS.API.DIRECT.GET.{WORK}", body, DIRECT_SECONDS)
            count = 0
            async for headers, data in answers:
                sequence = int(headers["Nats-Sequence"])
                self._last = max(self._last, sequence)
                # By its subject: that is the queue in which workers receive it.
                pool = headers["Nats-Subject"].split(".")[1]
                found.setdefault(pool, []).append(PostedOffer(sequence, _parse(data)))
                first, count = sequence + 1, count + 1
        self._standing, self._listed_to = found, listed_to
        self._listed_at, self._generation = time.monotonic(), generation
        return found

    async def post(self, *offers: Offer) -> None:
        """Publish offers, all of them before the first is acknowledged."""
        under_way = [(offer, await self._publish(offer)) for offer in offers]
        results = await asyncio.gather(*(position for _, position in under_way), return_exceptions=True)
        for (offer, _), result in zip(under_way, results, strict=True):
            if isinstance(result, BaseException):
                self.forget()
                raise result
            await self._note_posted(offer, result)

    async def _note_posted(self, offer: Offer, position: int) -> None:
        """The position is that of an earlier copy when the server took the offer for the same message. One
        that is gone is posted again: as a new message."""
        entries = self._standing.setdefault(offer.pool, [])
        while position <= self._listed_to and all(each.sequence != position for each in entries):
            self._remember_gone(offer, position)
            position = await (await self._publish(offer))
        if all(each.sequence != position for each in entries):
            insort(entries, PostedOffer(position, offer), key=lambda entry: entry.sequence)
        self._last = max(self._last, position)

    async def _publish(self, offer: Offer) -> asyncio.Future[int]:
        """Its message id contains the sequence of its last copy that is gone: two orchestrators that see the
        same stream publish it once, and publishing it again later is a new message."""
        gone = self._gone.get((offer.run_id, offer.attempt), 0)
        return await self._publisher.start(
            work_subject(offer.pool, offer.priority),
            offer.SerializeToString(),
            {MESSAGE_ID: f"{offer.run_id}:{offer.attempt}:{gone}"},
        )

    async def withdraw(self, entries: Sequence[PostedOffer]) -> None:
        """Delete offers. One that a worker acknowledged meanwhile is already gone, which is no error."""
        results = await asyncio.gather(
            *(self._delete(each.sequence) for each in entries), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                self.forget()
                raise result
        sequences = {each.sequence for each in entries}
        for pool, standing in self._standing.items():
            self._standing[pool] = [each for each in standing if each.sequence not in sequences]
        for each in entries:
            self._remember_gone(each.offer, each.sequence)

    async def _delete(self, sequence: int) -> None:
        with contextlib.suppress(ServerRefusedError):
            await ask(
                self._link,
                f"STREAM.MSG.DELETE.{WORK}",
                {"seq": sequence, "no_erase": True},
                final=(NOT_DELETED,),
            )

    def _remember_gone(self, offer: Offer, sequence: int) -> None:
        if len(self._gone) >= MAX_WITHDRAWN:
            self._gone.clear()
        self._gone[offer.run_id, offer.attempt] = sequence
