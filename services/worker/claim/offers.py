"""Offers from the WORK stream, pulled one at a time and only while a slot is free.

A raw pull instead of nats-py's fetch, which loses an offer when it is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from google.protobuf.message import DecodeError

from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.subjects import WORK, is_token
from runspine.services.worker.metrics import OFFERS
from runspine.wire.v1.run_pb2 import Offer

log = structlog.get_logger()

NANO = 1_000_000_000
ONE_POOL_SECONDS = 10.0
# Several pools are polled in turn, so an offer waits for at most one round.
EACH_POOL_SECONDS = 0.25
RETRY_SECONDS = 0.25
# How often the pause after a failure doubles.
MAX_DOUBLINGS = 3
HOLD_SECONDS = 2.0
ACK_TRIES = 3
# Beginning of the reply subject of a delivered message.
POSITION = "$JS.ACK."


@dataclass(frozen=True, slots=True)
class OfferLease:
    """An offer in hand. A hint only: the worker whose AttemptStarted is on the log has the run."""

    offer: Offer
    reply: str


class OfferQueue:
    """Pulls offers of the worker's pools and answers them."""

    def __init__(self, link: NatsConnection, pools: Sequence[str]) -> None:
        self._link = link
        self._pools = list(pools)
        self._wait_seconds = ONE_POOL_SECONDS if len(self._pools) == 1 else EACH_POOL_SECONDS

    async def next(self) -> OfferLease:
        """The next offer, from the first pool that has one."""
        failures = 0
        while True:
            for pool in self._pools:
                generation = self._link.generation
                try:
                    lease = await self._pull(pool)
                except NatsUnreachableError as error:
                    log.debug("offers.waiting", pool=pool, error=str(error))
                    # A fleet must not ask in step; a new connection is used at once.
                    pause = RETRY_SECONDS * 2 ** min(failures, MAX_DOUBLINGS) * random.uniform(0.5, 1.5)
                    failures += 1
                    await self._link.changed_since(generation, pause)
                    continue
                failures = 0
                if lease is not None:
                    return lease

    async def acknowledge(self, lease: OfferLease, answer: str) -> None:
        """Remove an offer from the queue. Best effort: an offer delivered again is stale by the log."""
        OFFERS.labels(answer).inc()
        for _ in range(ACK_TRIES):
            try:
                await self._link.request(lease.reply, b"+ACK", timeout=2)
            except NatsUnreachableError as error:
                log.info("offer.not_acknowledged", run_id=lease.offer.run_id, error=str(error))
            else:
                return

    async def hold(self, lease: OfferLease) -> None:
        """Extend the offer's ack wait while it is being claimed, until cancelled."""
        while True:
            await asyncio.sleep(HOLD_SECONDS)
            with contextlib.suppress(NatsUnreachableError):
                await self._link.publish(lease.reply, b"+WPI")

    async def give_back(self, reply: str, delay: float) -> None:
        """Have the offer delivered again after `delay` seconds."""
        OFFERS.labels("given_back").inc()
        wait = json.dumps({"delay": int(delay * NANO)})
        try:
            await self._link.publish(reply, f"-NAK {wait}".encode())
        except NatsUnreachableError as error:
            log.info("offer.not_given_back", error=str(error))

    async def _pull(self, pool: str) -> OfferLease | None:
        """One request to the pool's consumer: an offer, or None when there is none for now."""
        generation = self._link.generation
        body = {"batch": 1, "expires": int(self._wait_seconds * NANO)}
        async with self._link.conversation() as (inbox, arrived):
            try:
                await self._link.publish(
                    f"$JS.API.CONSUMER.MSG.NEXT.{WORK}.pool-{pool}", json.dumps(body).encode(), inbox
                )
                deadline = time.monotonic() + self._wait_seconds + 1
                while time.monotonic() < deadline and self._link.generation == generation:
                    try:
                        async with asyncio.timeout(0.5):
                            message = await arrived.get()
                    except TimeoutError:
                        continue
                    # An offer may hold any header: only a message without a position is the server's own.
                    if message.reply.startswith(POSITION):
                        return await self._parse(message.data, message.reply)
                    status = (message.headers or {}).get("Status")
                    if status != "408":
                        raise NatsUnreachableError(
                            f"pool-{pool}: {status} {(message.headers or {}).get('Description', '')}"
                        )
                    return None
                return None
            finally:
                # Cancelled with an offer already received: give it back at once.
                while not arrived.empty():
                    late = arrived.get_nowait()
                    if late.reply:
                        await self.give_back(late.reply, 0)

    async def _parse(self, data: bytes, reply: str) -> OfferLease | None:
        try:
            offer = Offer.FromString(data)
        except DecodeError:
            offer = Offer()
        if is_token(offer.run_id) and offer.attempt > 0:
            return OfferLease(offer, reply)
        log.error("offer.unreadable", data=data[:100].hex())
        await self._link.publish(reply, b"+TERM")
        return None
