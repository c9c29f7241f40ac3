"""Ordered reading of a stream from a position on, across restarts of the server.

It uses direct gets, and no consumer: JetStream publishes what a consumer delivers on any subject that its
creator names, so no reader may create one. The server announces each stored message on
`stored.<stream>.<subject>`; a reader that has read everything waits for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.nats_py import Msg, NatsError
from runspine.eventlog.reads import SEQUENCE, stored_at
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.subjects import announcements

log = structlog.get_logger()

BATCH = 512
MAX_BYTES = 4 << 20
# A reader looks again after this time even if nothing was announced: an announcement is sent once.
IDLE_SECONDS = 2.0
# The replica that answers may lack for a moment what was announced. The pause doubles up to the above.
BEHIND_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message with its position in the stream. `pending` counts those of the same reader after it."""

    subject: str
    data: bytes
    headers: dict[str, str]
    sequence: int
    stored_at: int
    pending: int


class Tail:
    """One reader of a stream, or of one subject or pattern of it.

    `announced` is a position that is known to be stored: until it is reached, the reader does not wait long.
    """

    def __init__(
        self, link: NatsConnection, stream: str, *, after: int = 0, subject: str = "", announced: int = 0
    ) -> None:
        self._link = link
        self._stream = stream
        self._subject = subject or ">"
        self._announced = announced
        self._news = asyncio.Event()
        self.position = after

    async def deliveries(self) -> AsyncGenerator[Delivery, None]:
        """Every message after the position, in order, each once; never ends by itself."""
        while True:
            try:
                async with self._announcements():
                    async for delivery in self._on_this_connection():
                        yield delivery
            except (NatsUnreachableError, NatsError, ConnectionError, ServerRefusedError) as error:
                log.debug("tail.again", stream=self._stream, after=self.position, error=str(error))
                await asyncio.sleep(0.1)

    async def _on_this_connection(self) -> AsyncGenerator[Delivery, None]:
        generation, pause = self._link.generation, BEHIND_SECONDS
        while self._link.generation == generation:
            self._news.clear()
            before, pending = self.position, 0
            async with aclosing(self._batch()) as batch:
                async for delivery in batch:
                    self.position, pending = delivery.sequence, delivery.pending
                    yield delivery
            if self.position > before:
                pause = BEHIND_SECONDS
            if pending:
                continue
            if self.position >= self._announced:
                await self._wait(IDLE_SECONDS)
            elif self.position == before:
                # Announced and not there: this replica is behind, or the message is removed already.
                await self._wait(pause)
                pause = min(2 * pause, IDLE_SECONDS)

    async def _batch(self) -> AsyncGenerator[Delivery, None]:
        """The next messages, as one replica has them."""
        body = {
            "seq": self.position + 1,
            "next_by_subj": self._subject,
            "batch": BATCH,
            "max_bytes": MAX_BYTES,
        }
        answers = self._link.replies(f"$JS.API.DIRECT.GET.{self._stream}", json.dumps(body).encode())
        async with aclosing(answers):
            async for headers, data in answers:
                yield Delivery(
                    headers["Nats-Subject"],
                    data,
                    headers,
                    sequence=int(headers[SEQUENCE]),
                    stored_at=stored_at(headers),
                    pending=int(headers.get("Nats-Num-Pending", "0")),
                )

    @contextlib.asynccontextmanager
    async def _announcements(self) -> AsyncIterator[None]:
        async def note(message: Msg) -> None:
            with contextlib.suppress(KeyError, ValueError, TypeError):
                self._announced = max(self._announced, int((message.headers or {})[SEQUENCE]))
                self._news.set()

        subject = announcements(self._stream, self._subject)
        subscription = await self._link.client.subscribe(subject, cb=note)
        try:
            yield
        finally:
            with contextlib.suppress(NatsError, ConnectionError):
                await subscription.unsubscribe()

    async def _wait(self, seconds: float) -> None:
        """Until the next announcement, at most for this time."""
        # Not wait_for: before Python 3.12 it may swallow a cancellation.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
