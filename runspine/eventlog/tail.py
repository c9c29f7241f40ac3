"""Ordered reading of a stream from a position on, across restarts of the server.

It uses an ephemeral pull consumer without acknowledgements. The reader keeps its own position; after any
error the consumer is created again from there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import structlog

from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.nats_py import Msg, NatsError
from runspine.eventlog.server_errors import STREAM_NOT_FOUND, ServerRefusedError
from runspine.ids import new_ulid

log = structlog.get_logger()

BATCH = 256
MAX_BYTES = 4 << 20
PULL_SECONDS = 30
HEARTBEAT_SECONDS = 1
CREATE_SECONDS = 2.0
NANO = 1_000_000_000
# Beginning of the reply subject of a delivered message, which holds its position.
POSITION = "$JS.ACK."


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message with its position in the stream."""

    message: Msg
    sequence: int
    consumer_sequence: int
    stored_at: int
    pending: int


def parse_delivery(message: Msg) -> Delivery:
    """Read the position from the reply subject, in either of its two forms."""
    tokens = message.reply.split(".")
    offset = 4 if len(tokens) < 11 else 6
    return Delivery(
        message,
        sequence=int(tokens[offset + 1]),
        consumer_sequence=int(tokens[offset + 2]),
        stored_at=int(tokens[offset + 3]) // 1000,
        pending=int(tokens[offset + 4]),
    )


class Tail:
    """One reader of a stream."""

    def __init__(self, link: NatsConnection, stream: str, *, after: int = 0, subject: str = "") -> None:
        self._link = link
        self._stream = stream
        self._subject = subject
        self.position = after

    async def deliveries(self) -> AsyncGenerator[Delivery, None]:
        """Every message after the position, in order, each once; never ends by itself."""
        while True:
            try:
                async for delivery in self._from_position():
                    yield delivery
            except (NatsUnreachableError, NatsError, ConnectionError, ServerRefusedError) as error:
                log.debug("tail.again", stream=self._stream, after=self.position, error=str(error))
                await asyncio.sleep(0.1)

    async def _from_position(self) -> AsyncGenerator[Delivery, None]:
        generation = self._link.generation
        consumer = await self._create_consumer()
        expected = 1
        async with self._link.conversation(numbered=True) as (inbox, arrived):
            pull = await self._pull(consumer, inbox, 1)
            while self._link.generation == generation:
                message = await _next(arrived)
                # A stored message may hold any header: only one without a position is the server's own.
                if not message.reply.startswith(POSITION):
                    if message.subject == pull.inbox and _has_ended(message):
                        pull = await self._pull(consumer, inbox, pull.number + 1)
                    continue
                delivery = parse_delivery(message)
                if delivery.consumer_sequence != expected:
                    raise NatsUnreachableError("a message was lost in transit")
                expected += 1
                self.position = delivery.sequence
                yield delivery
                pull.left -= 1
                if pull.left == 0:
                    pull = await self._pull(consumer, inbox, pull.number + 1)

    async def _create_consumer(self) -> str:
        name = new_ulid()
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": 60 * NANO,
            "mem_storage": True,
            "num_replicas": 1,
        }
        verb = f"CONSUMER.CREATE.{self._stream}.{name}"
        if self._subject:
            config["filter_subject"] = self._subject
            verb = f"{verb}.{self._subject}"
        body = {"stream_name": self._stream, "config": config}
        # The server that was chosen for the consumer answers. If it hangs, the next name goes to another.
        await ask(self._link, verb, body, timeout=CREATE_SECONDS, final=(STREAM_NOT_FOUND,))
        return name

    async def _pull(self, consumer: str, inbox: str, number: int) -> _Pull:
        """Request the next batch. Each pull has its own inbox: the server reports the end of a pull even
        when its batch was complete, and that must not be taken for the end of the next."""
        body = {
            "batch": BATCH,
            "max_bytes": MAX_BYTES,
            "expires": PULL_SECONDS * NANO,
            "idle_heartbeat": HEARTBEAT_SECONDS * NANO,
        }
        pull = _Pull(number, f"{inbox}.{number}")
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
        await self._link.client.publish(subject, json.dumps(body).encode(), reply=pull.inbox)
        return pull


@dataclass(slots=True)
class _Pull:
    """A pull request in progress."""

    number: int
    inbox: str
    left: int = BATCH


async def _next(arrived: asyncio.Queue[Msg]) -> Msg:
    """The next message. Raises NatsUnreachableError when no heartbeat of the consumer arrives."""
    if not arrived.empty():
        return arrived.get_nowait()
    try:
        # Not wait_for: before Python 3.12 it may swallow a cancellation.
        async with asyncio.timeout(3 * HEARTBEAT_SECONDS):
            return await arrived.get()
    except TimeoutError:
        raise NatsUnreachableError("no heartbeat from the consumer") from None


def _has_ended(message: Msg) -> bool:
    """Whether a status ends the pull: by time or size. A heartbeat does not; any other status raises."""
    headers = message.headers or {}
    status, description = headers.get("Status", ""), headers.get("Description", "")
    if status == "100":
        return False
    if status == "408" or "MaxBytes" in description or "Batch Completed" in description:
        return True
    raise NatsUnreachableError(f"consumer status {status} {description}")
