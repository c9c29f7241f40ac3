"""Core NATS messages: they are not stored, and dropped when too much is pending on the connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from runspine.eventlog.connection import NatsConnection, NatsUnreachableError, is_no_responders
from runspine.eventlog.nats_py import Msg, NatsError
from runspine.tasks import cancel_and_wait

# Bytes that may be pending on the connection before new messages are dropped: facts use it, too.
MAX_PENDING_BYTES = 1 << 20
# The same for received messages; beyond it nats-py drops new ones.
MAX_RECEIVED_BYTES = 32 << 20
POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CoreMessage:
    """A message, or the server's report that nobody subscribes to the subject of a request."""

    subject: str
    reply: str
    data: bytes
    nobody: bool = False


async def try_publish(link: NatsConnection, subject: str, payload: bytes, reply: str = "") -> bool:
    """Publish to the current subscribers; False when the message was dropped.

    With `reply`, the server reports there when nobody subscribes.
    """
    if not link.connected or link.client.pending_data_size > MAX_PENDING_BYTES:
        return False
    try:
        await link.publish(subject, payload, reply)
    except NatsUnreachableError:
        return False
    return True


def max_payload(link: NatsConnection) -> int:
    """The largest payload in bytes that the server accepts."""
    return link.client.max_payload if link.connected else MAX_PENDING_BYTES


@contextlib.asynccontextmanager
async def subscribed(
    link: NatsConnection, subject: str, receive: Callable[[bytes], None]
) -> AsyncIterator[None]:
    """Call `receive` with each message on the subject while the context is open. It must not block."""
    async with messages_of(link, subject, lambda message: receive(message.data)):
        yield


@contextlib.asynccontextmanager
async def messages_of(
    link: NatsConnection, subject: str, receive: Callable[[CoreMessage], None]
) -> AsyncIterator[None]:
    """The same with whole messages."""
    task = asyncio.create_task(_listen(link, subject, receive), name=f"subscribed-{subject}")
    try:
        yield
    finally:
        await cancel_and_wait(task)


async def _listen(link: NatsConnection, subject: str, receive: Callable[[CoreMessage], None]) -> None:
    async def pass_on(message: Msg) -> None:
        receive(CoreMessage(message.subject, message.reply, message.data, is_no_responders(message)))

    while True:
        generation, client = link.generation, link.client if link.connected else None
        if client is not None:
            try:
                subscription = await client.subscribe(
                    subject, cb=pass_on, pending_bytes_limit=MAX_RECEIVED_BYTES
                )
            except (NatsError, ConnectionError):
                client = None
        if client is None:
            await link.changed_since(generation, 1.0)
            continue
        try:
            # nats-py subscribes again when it reconnects; a client that replaced it does not.
            while link.holds(client):
                await link.changed_since(generation, POLL_SECONDS)
                generation = link.generation
        finally:
            with contextlib.suppress(NatsError, ConnectionError):
                await subscription.unsubscribe()
