"""The acked publisher: every message is acknowledged by JetStream, or still held and sent again.

nats-py's own publish_async loses errors and forgets what a dead server had not answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any, Self

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from runspine.log.link import Link, Unreachable, is_no_responders
from runspine.tasks import put_down

RESEND_AFTER = 2.0
HEADROOM = 8 << 10

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"

# JetStream's answers that pass: not ready, no leader, storage busy, stream full.
_TRANSIENT = {10008, 10009, 10023, 10047, 10077}


class Refused(Exception):
    """JetStream answered with an error that sending again cannot mend."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code


class TooLarge(Exception):
    """The message is larger than the server takes."""


@dataclass(slots=True)
class _Pending:
    subject: str
    payload: bytes
    headers: dict[str, str]
    done: asyncio.Future[int]
    sent_at: float = 0.0
    sent: int = 0


@dataclass(slots=True)
class Publisher:
    """Sends, waits for the acknowledgement, and sends again after any outage."""

    link: Link
    window: int = 512
    window_bytes: int = 16 << 20
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _bytes: int = 0
    _numbers: Any = field(default_factory=itertools.count)
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _sweeper: asyncio.Task[None] | None = None
    _client_of_inbox: object = None
    resent: int = 0

    async def __aenter__(self) -> Self:
        self.link.on_connect(self._connected)
        if self.link.connected:
            await self._connected()
        self._room.set()
        self._sweeper = asyncio.create_task(self._sweep(), name="publisher-sweep")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sweeper:
            await put_down(self._sweeper)
        for pending in self._pending.values():
            pending.done.cancel()

    @property
    def inbox(self) -> str:
        return f"{self.link.account.inbox}.pub.{self.link.token}-{id(self):x}"

    @property
    def waiting(self) -> int:
        return len(self._pending)

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        """The stream position it was stored at. Waits as long as that takes; raises Refused."""
        return await (await self.start(subject, payload, headers))

    async def start(self, subject: str, payload: bytes, headers: dict[str, str]) -> asyncio.Future[int]:
        """Send when the window has room; the future holds the position."""
        self._check_size(subject, payload, headers)
        while len(self._pending) >= self.window or self._bytes >= self.window_bytes:
            self._room.clear()
            await self._room.wait()
        number = next(self._numbers)
        pending = _Pending(subject, payload, headers, asyncio.get_running_loop().create_future())
        self._pending[number] = pending
        self._bytes += len(payload)
        pending.done.add_done_callback(lambda _: self._drop(number))
        await self._send(number, pending)
        return pending.done

    def _check_size(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        try:
            limit = self.link.client.max_payload
        except Unreachable:
            return
        size = len(payload) + sum(len(k) + len(v) + 4 for k, v in headers.items())
        if limit and size > limit - HEADROOM:
            raise TooLarge(f"{subject}: {size} bytes, more than the {limit - HEADROOM} accepted")

    def _drop(self, number: int) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            self._bytes -= len(pending.payload)
            self._room.set()

    async def _send(self, number: int, pending: _Pending) -> None:
        pending.sent_at = time.monotonic()
        pending.sent += 1
        if pending.sent > 1:
            self.resent += 1
        with contextlib.suppress(NatsError, ConnectionError, Unreachable):
            await self.link.client.publish(
                pending.subject,
                pending.payload,
                reply=f"{self.inbox}.{number}",
                headers=pending.headers,
            )

    async def _connected(self) -> None:
        """A new connection: the inbox must exist on it, and nothing unanswered is trusted."""
        if self._client_of_inbox is not self.link.client:
            self._client_of_inbox = self.link.client
            await self.link.client.subscribe(f"{self.inbox}.*", cb=self._answered)
        for number, pending in list(self._pending.items()):
            await self._send(number, pending)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(RESEND_AFTER / 4)
            late = time.monotonic() - RESEND_AFTER
            for number, pending in list(self._pending.items()):
                if pending.sent_at < late and not pending.done.done():
                    await self._send(number, pending)

    async def _answered(self, message: Msg) -> None:
        number = int(message.subject.rsplit(".", 1)[1])
        pending = self._pending.get(number)
        if pending is None or pending.done.done():
            return
        if is_no_responders(message):
            pending.sent_at = min(pending.sent_at, time.monotonic() - RESEND_AFTER * 0.75)
            return
        answer = json.loads(message.data)
        error = answer.get("error")
        if error is None:
            pending.done.set_result(answer["seq"])
        elif error.get("err_code") not in _TRANSIENT:
            pending.done.set_exception(Refused(error.get("err_code", 0), error["description"]))
