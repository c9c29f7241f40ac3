"""One connection to NATS that outlives servers, and says why when it cannot.

nats-py gives up for ever on some errors and looks connected while deaf after others. A link
rebuilds its client then, so that whoever holds it (a worker with a trainer running) need not die.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import nats
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from runspine.tasks import put_down

log = structlog.get_logger()

CONNECT_WAIT = 0.2
PROBE_EVERY = 5.0
ASK_AGAIN = 1.5


class Unreachable(Exception):
    """NATS does not answer."""


@dataclass(frozen=True, slots=True)
class Account:
    """How to reach NATS, and as whom."""

    url: str
    user: str = ""
    password: str = ""
    inbox: str = "_INBOX"


class Link:
    """A client that is rebuilt when it is beyond repair. `generation` counts (re)connections."""

    def __init__(self, account: Account, name: str) -> None:
        self.account = account
        self.name = name
        # Two processes of one user share an inbox prefix; their answers must never meet.
        self.token = secrets.token_hex(8)
        self.generation = 0
        self.last_error = ""
        self._client: Client | None = None
        self._hooks: list[Callable[[], Awaitable[None]]] = []
        self._changed = asyncio.Condition()
        self._keeper: asyncio.Task[None] | None = None
        self._broken = asyncio.Event()
        self._asks = itertools.count()

    async def __aenter__(self) -> Self:
        await self._build()
        self._keeper = asyncio.create_task(self._keep(), name=f"link-{self.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeper:
            await put_down(self._keeper)
        await self._discard()

    @property
    def client(self) -> Client:
        if self._client is None:
            raise Unreachable(f"not connected to {self.account.url}")
        return self._client

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    def holds(self, client: Client) -> bool:
        """Whether this is still the client, and none that was built in its place."""
        return self._client is client

    def on_connect(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Call this after each (re)connection."""
        self._hooks.append(hook)

    async def changed_since(self, generation: int, timeout: float) -> bool:
        """Whether a new connection was made since `generation`, waiting for it at most `timeout`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self.generation != generation)
        return self.generation != generation

    async def request(self, subject: str, payload: bytes, timeout: float = 8.0) -> Msg:
        """One question, one answer; asked again when it was lost with a connection.

        Only for questions that may be asked twice. Raises Unreachable when no answer comes.
        """
        until = time.monotonic() + timeout
        while True:
            wait = min(ASK_AGAIN, until - time.monotonic())
            try:
                return await self.client.request(subject, payload, timeout=max(wait, 0.05))
            except (NatsError, TimeoutError, ConnectionError, Unreachable) as error:
                if time.monotonic() + CONNECT_WAIT >= until:
                    detail = self.last_error or str(error) or type(error).__name__
                    raise Unreachable(f"{subject}: {detail}") from error
                await asyncio.sleep(CONNECT_WAIT / 4)

    @contextlib.asynccontextmanager
    async def conversation(self, *, numbered: bool = False) -> AsyncIterator[tuple[str, asyncio.Queue[Msg]]]:
        """An inbox of its own and what arrives there; `numbered`: at <inbox>.<anything> instead."""
        inbox = f"{self.account.inbox}.ask.{self.token}.{next(self._asks)}"
        arrived: asyncio.Queue[Msg] = asyncio.Queue()

        async def keep(message: Msg) -> None:
            arrived.put_nowait(message)

        try:
            subscription = await self.client.subscribe(f"{inbox}.*" if numbered else inbox, cb=keep)
        except (NatsError, ConnectionError) as error:
            raise Unreachable(str(error)) from error
        try:
            yield inbox, arrived
        finally:
            with contextlib.suppress(NatsError, ConnectionError):
                await subscription.unsubscribe()

    async def replies(
        self, subject: str, payload: bytes
    ) -> AsyncGenerator[tuple[dict[str, str], bytes], None]:
        """One question to a direct-get subject, its many answers up to the end mark."""
        async with self.conversation() as (inbox, arrived):
            await self.tell(subject, payload, inbox)
            while True:
                try:
                    # Not wait_for: before Python 3.12 it may swallow a cancellation.
                    async with asyncio.timeout(ASK_AGAIN):
                        message = await arrived.get()
                except TimeoutError as error:
                    raise Unreachable(f"{subject}: {self.last_error or 'no answer'}") from error
                headers = message.headers or {}
                if "Nats-Sequence" in headers:
                    yield headers, message.data
                elif headers.get("Status") in ("204", "404"):
                    return
                else:
                    raise Unreachable(f"{subject}: {headers.get('Description', 'refused')}")

    async def tell(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send without waiting for anything. Raises Unreachable."""
        try:
            await self.client.publish(subject, payload, reply=reply)
        except (NatsError, ConnectionError) as error:
            raise Unreachable(f"{subject}: {error}") from error

    async def _build(self) -> None:
        while True:
            try:
                self._client = await nats.connect(
                    self.account.url,
                    user=self.account.user or None,
                    password=self.account.password or None,
                    inbox_prefix=self.account.inbox.encode(),
                    name=self.name,
                    connect_timeout=2,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=CONNECT_WAIT,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    pending_size=8 << 20,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    reconnected_cb=self._announce,
                )
            except (NatsError, OSError, TimeoutError) as error:
                self._note(error)
                await asyncio.sleep(CONNECT_WAIT)
            else:
                await self._announce()
                return

    async def _announce(self) -> None:
        self.last_error = ""
        for hook in self._hooks:
            await hook()
        async with self._changed:
            self.generation += 1
            self._changed.notify_all()

    async def _on_error(self, error: Exception) -> None:
        self._note(error)

    def _note(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self.last_error:
            log.warning("nats.trouble", url=self.account.url, error=text)
        self.last_error = text

    async def _on_closed(self) -> None:
        self._broken.set()

    async def _keep(self) -> None:
        """Probe the client; replace it when it is closed, or connected but deaf."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_EVERY):
                    await self._broken.wait()
            if not self._broken.is_set() and not await self._deaf():
                continue
            log.warning("nats.rebuilding", url=self.account.url, error=self.last_error)
            await self._discard()
            self._broken.clear()
            await self._build()

    async def _deaf(self) -> bool:
        client = self._client
        if client is None or not client.is_connected:
            return False
        try:
            await asyncio.wait_for(client.flush(timeout=int(PROBE_EVERY)), PROBE_EVERY + 1)
        except (NatsError, TimeoutError, ConnectionError):
            return client.is_connected
        return False

    async def _discard(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            # RuntimeError: uvloop's word for writing to a connection that the server has cut.
            with contextlib.suppress(NatsError, OSError, TimeoutError, RuntimeError):
                await asyncio.wait_for(client.close(), 2)


def is_no_responders(message: Msg) -> bool:
    return (message.headers or {}).get("Status") == "503"
