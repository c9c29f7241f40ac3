"""A publisher that keeps every message until JetStream acknowledges it, and sends it again after an outage.

publish_async of nats-py loses errors, and messages that a server had not acknowledged when it stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any, Self

from runspine.eventlog.connection import NatsConnection, NatsUnreachableError, is_no_responders
from runspine.eventlog.nats_py import Msg, NatsError
from runspine.eventlog.server_errors import ServerRefusedError, Verdict, sequence_in, verdict_of
from runspine.tasks import cancel_and_wait

RESEND_SECONDS = 2.0
# After a transient error it is sent again sooner: the pause begins with this and doubles up to the above.
RETRY_SECONDS = 0.005
HEADROOM = 8 << 10

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_END = "Nats-Expected-Last-Sequence"


class PublishRefusedError(ServerRefusedError):
    """JetStream did not store the message, and will not."""


class MessageTooLargeError(Exception):
    """The message is larger than the server accepts."""


@dataclass(slots=True)
class _Pending:
    subject: str
    payload: bytes
    headers: dict[str, str]
    done: asyncio.Future[int]
    # When to send it again unless there is an answer.
    due: float = 0.0
    sent_at: float = 0.0
    sent: int = 0
    transient: int = 0


@dataclass(slots=True)
class Publisher:
    """Sends, waits for the acknowledgement, and sends again after any outage."""

    link: NatsConnection
    window: int = 512
    window_bytes: int = 16 << 20
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _bytes: int = 0
    _numbers: Any = field(default_factory=itertools.count)
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _soon: asyncio.Event = field(default_factory=asyncio.Event)
    _sweeper: asyncio.Task[None] | None = None
    _client_of_inbox: object = None
    resent: int = 0
    inbox: str = ""

    async def __aenter__(self) -> Self:
        self.inbox = self.link.new_inbox()
        self.link.on_connect(self._connected)
        if self.link.connected:
            await self._connected()
        self._room.set()
        self._sweeper = asyncio.create_task(self._sweep(), name="publisher-sweep")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sweeper:
            await cancel_and_wait(self._sweeper)
        for pending in self._pending.values():
            pending.done.cancel()

    @property
    def waiting(self) -> int:
        return len(self._pending)

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        """The stream position it was stored at. Waits as long as that takes; raises PublishRefusedError."""
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
        except NatsUnreachableError:
            return
        size = len(payload) + sum(len(k) + len(v) + 4 for k, v in headers.items())
        if limit and size > limit - HEADROOM:
            raise MessageTooLargeError(f"{subject}: {size} bytes, more than the {limit - HEADROOM} accepted")

    def _drop(self, number: int) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            self._bytes -= len(pending.payload)
            self._room.set()

    async def _send(self, number: int, pending: _Pending) -> None:
        pending.sent_at = time.monotonic()
        pending.due = pending.sent_at + RESEND_SECONDS
        pending.sent += 1
        if pending.sent > 1:
            self.resent += 1
        with contextlib.suppress(NatsError, ConnectionError, NatsUnreachableError):
            await self.link.client.publish(
                pending.subject,
                pending.payload,
                reply=f"{self.inbox}.{number}",
                headers=pending.headers,
            )

    async def _connected(self) -> None:
        """After a (re)connection: subscribe to the inbox and send every unacknowledged message again."""
        if self._client_of_inbox is not self.link.client:
            self._client_of_inbox = self.link.client
            await self.link.client.subscribe(f"{self.inbox}.*", cb=self._answered)
        for number, pending in list(self._pending.items()):
            await self._send(number, pending)

    async def _sweep(self) -> None:
        pause = RESEND_SECONDS / 4
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._soon.wait()
            self._soon.clear()
            now = time.monotonic()
            for number, pending in list(self._pending.items()):
                if pending.due <= now and not pending.done.done():
                    if now - pending.sent_at >= RESEND_SECONDS:
                        self.link.silence.unanswered(pending.subject, pending.sent_at)
                    await self._send(number, pending)
            next_due = min((pending.due for pending in self._pending.values()), default=now + RESEND_SECONDS)
            pause = min(max(next_due - time.monotonic(), RETRY_SECONDS), RESEND_SECONDS / 4)

    async def _answered(self, message: Msg) -> None:
        number = message.subject.rsplit(".", 1)[1]
        pending = self._pending.get(int(number)) if number.isascii() and number.isdigit() else None
        if pending is None or pending.done.done():
            return
        if is_no_responders(message):
            self._send_soon(pending, RESEND_SECONDS / 4)
            return
        answer = _parse(message.data)
        if answer is None:
            return
        self.link.silence.answered(pending.subject)
        error = answer.get("error")
        if error is None:
            pending.done.set_result(answer["seq"])
        elif verdict_of(error) is Verdict.RETRY or _is_behind(error, pending.headers):
            self._send_soon(pending, RETRY_SECONDS * 2 ** min(pending.transient, 10))
            pending.transient += 1
        else:
            pending.done.set_exception(PublishRefusedError(error))

    def _send_soon(self, pending: _Pending, pause: float) -> None:
        pending.due = min(pending.due, time.monotonic() + min(pause, RESEND_SECONDS))
        self._soon.set()


def _parse(data: bytes) -> dict[str, Any] | None:
    """The answer of JetStream, or None for anything else: without an answer the message is sent again."""
    try:
        answer = json.loads(data)
    except ValueError:
        return None
    known = isinstance(answer, dict) and (isinstance(answer.get("error"), dict) or "seq" in answer)
    return answer if known else None


def _is_behind(error: dict[str, Any], headers: dict[str, str]) -> bool:
    """Whether the server that refuses lacks what the writer has read: a leader that was deposed and does not
    know it yet. It decides nothing; the new leader may have stored the same message."""
    if verdict_of(error) is not Verdict.CONFLICT:
        return False
    return sequence_in(str(error.get("description", ""))) < int(headers.get(EXPECTED, "0"))
