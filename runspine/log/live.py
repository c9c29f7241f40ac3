"""What is said on NATS and never stored: heard while somebody listens, dropped when the way is full."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from runspine.log.link import Link, Unreachable
from runspine.tasks import put_down

# What may wait on the connection before something new is dropped: facts travel on it, too.
MOST_WAITING = 1 << 20
# The same on the way in. Beyond that nats-py drops what is new.
MOST_ARRIVED = 32 << 20
LOOK_AGAIN = 5.0


async def say(link: Link, subject: str, payload: bytes) -> bool:
    """Say it to whoever listens now; whether there was room for it."""
    if not link.connected or link.client.pending_data_size > MOST_WAITING:
        return False
    try:
        await link.tell(subject, payload)
    except Unreachable:
        return False
    return True


def most_bytes(link: Link) -> int:
    """The largest payload that the server takes."""
    return link.client.max_payload if link.connected else MOST_WAITING


@contextlib.asynccontextmanager
async def listening(link: Link, subject: str, take: Callable[[bytes], None]) -> AsyncIterator[None]:
    """`take` is called with everything said on the subject meanwhile. It must not wait for anything."""
    keeper = asyncio.create_task(_listen(link, subject, take), name=f"listening-{subject}")
    try:
        yield
    finally:
        await put_down(keeper)


async def _listen(link: Link, subject: str, take: Callable[[bytes], None]) -> None:
    async def pass_on(message: Msg) -> None:
        take(message.data)

    while True:
        generation, client = link.generation, link.client if link.connected else None
        if client is not None:
            try:
                heard = await client.subscribe(subject, cb=pass_on, pending_bytes_limit=MOST_ARRIVED)
            except (NatsError, ConnectionError):
                client = None
        if client is None:
            await link.changed_since(generation, 1.0)
            continue
        try:
            # nats-py subscribes again when it reconnects. A client that was built anew knows of nothing.
            while link.holds(client):
                await link.changed_since(generation, LOOK_AGAIN)
                generation = link.generation
        finally:
            with contextlib.suppress(NatsError, ConnectionError):
                await heard.unsubscribe()
