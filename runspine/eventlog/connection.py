"""A connection to NATS that survives restarts of the server.

nats-py gives up for good after some errors, and after others stays connected without receiving anything.
NatsConnection then replaces its client, so that its owner (a worker with a trainer running) keeps running.
In a cluster it leaves a server that does not answer for another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Self
from urllib.parse import urlparse

import structlog

from runspine.eventlog.nats_py import Client, Msg, NatsError
from runspine.eventlog.silence import Silence
from runspine.tasks import cancel_and_wait

log = structlog.get_logger()

CONNECT_RETRY_SECONDS = 0.2
# Each connection has a pause of its own between two tries, so that a fleet does not come back at one moment.
JITTER = (0.5, 2.5)
CONNECT_SECONDS = 2
REQUEST_RETRY_SECONDS = 1.5
# The pause between two probes of a server and the wait for the answer: alone, and with others to go to.
PROBE_SECONDS = (5.0, 5.0)
CLUSTER_PROBE_SECONDS = (1.0, 2.0)


# Not one of nats-server's: put into the queues of conversations after a reconnection.
RECONNECTED = "reconnected"


class NatsUnreachableError(Exception):
    """NATS does not answer."""


@dataclass(frozen=True, slots=True)
class NatsAccount:
    """Address of NATS, and the user to connect as. `url` may list several servers, separated by commas."""

    url: str
    user: str = ""
    password: str = ""
    inbox: str = "_INBOX"

    @property
    def seeds(self) -> list[str]:
        """The servers to connect to; one of them is enough to find the others of its cluster."""
        return [seed.strip() for seed in self.url.split(",") if seed.strip()]


class NatsConnection:
    """A client that is replaced when it is closed or unresponsive. `generation` counts (re)connections."""

    def __init__(self, account: NatsAccount, name: str, make_client: Callable[[], Client] = Client) -> None:
        self.account = account
        self.name = name
        self._make_client = make_client
        # Two processes of one user share an inbox prefix; the token keeps their replies apart.
        self.token = secrets.token_hex(8)
        self.generation = 0
        self.last_error = ""
        self._client: Client | None = None
        self._hooks: list[Callable[[], Awaitable[None]]] = []
        self._changed = asyncio.Condition()
        self._monitor: asyncio.Task[None] | None = None
        self._broken = asyncio.Event()
        self._retry_seconds = CONNECT_RETRY_SECONDS * random.uniform(*JITTER)
        # By inbox, in the order in which they began.
        self._conversations: dict[str, asyncio.Queue[Msg]] = {}
        self.silence = Silence()
        self._asks = itertools.count()
        self._publishers = itertools.count()

    async def __aenter__(self) -> Self:
        await self._build()
        self._monitor = asyncio.create_task(self._watch(), name=f"link-{self.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._monitor:
            await cancel_and_wait(self._monitor)
        await self._discard()

    @property
    def client(self) -> Client:
        if self._client is None:
            raise NatsUnreachableError(f"not connected to {self.account.url}")
        return self._client

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    def new_inbox(self) -> str:
        """An inbox for the acknowledgements of one publisher."""
        return f"{self.account.inbox}.pub.{self.token}-{next(self._publishers)}"

    def holds(self, client: Client) -> bool:
        """Whether this client is in use and was not replaced."""
        return self._client is client

    def on_connect(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Register a hook that is called after each (re)connection."""
        self._hooks.append(hook)

    async def changed_since(self, generation: int, timeout: float) -> bool:
        """Whether a new connection was made since `generation`, waiting for it at most `timeout`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self.generation != generation)
        return self.generation != generation

    async def request(self, subject: str, payload: bytes, timeout: float = 8.0) -> Msg:
        """Send a request and return its reply; it is sent again when a connection was lost.

        Only for idempotent requests. Raises NatsUnreachableError when no reply arrives.
        """
        until = time.monotonic() + timeout
        while True:
            sent = time.monotonic()
            wait = min(REQUEST_RETRY_SECONDS, until - sent)
            try:
                reply = await self.client.request(subject, payload, timeout=max(wait, 0.05))
                self.silence.answered(subject)
                return reply
            except (NatsError, TimeoutError, ConnectionError, NatsUnreachableError) as error:
                if isinstance(error, TimeoutError):
                    self.silence.unanswered(subject, sent)
                denied = f'"{subject}"'.lower() in self.last_error.lower()
                if denied or time.monotonic() + CONNECT_RETRY_SECONDS >= until:
                    detail = self.last_error or str(error) or type(error).__name__
                    raise NatsUnreachableError(f"{subject}: {detail}") from error
                await asyncio.sleep(CONNECT_RETRY_SECONDS / 4)

    @contextlib.asynccontextmanager
    async def conversation(self, *, numbered: bool = False) -> AsyncIterator[tuple[str, asyncio.Queue[Msg]]]:
        """A new inbox and a queue of its messages; `numbered` subscribes to <inbox>.* instead.

        After a reconnection the queue gets a message with the status RECONNECTED: what was asked before may
        never be answered.
        """
        inbox = f"{self.account.inbox}.ask.{self.token}.{next(self._asks)}"
        arrived: asyncio.Queue[Msg] = asyncio.Queue()

        async def keep(message: Msg) -> None:
            arrived.put_nowait(message)

        try:
            subscription = await self.client.subscribe(f"{inbox}.*" if numbered else inbox, cb=keep)
        except (NatsError, ConnectionError) as error:
            raise NatsUnreachableError(str(error)) from error
        self._conversations[inbox] = arrived
        try:
            yield inbox, arrived
        finally:
            del self._conversations[inbox]
            with contextlib.suppress(NatsError, ConnectionError):
                await subscription.unsubscribe()

    async def replies(
        self, subject: str, payload: bytes, patience: float = REQUEST_RETRY_SECONDS
    ) -> AsyncGenerator[tuple[dict[str, str], bytes], None]:
        """Send a direct-get request and yield its replies up to the end mark.

        Raises NatsUnreachableError when no reply comes for `patience` seconds.
        """
        async with self.conversation() as (inbox, arrived):
            await self.publish(subject, payload, inbox)
            while True:
                try:
                    # Not wait_for: before Python 3.12 it may swallow a cancellation.
                    async with asyncio.timeout(patience):
                        message = await arrived.get()
                except TimeoutError as error:
                    raise NatsUnreachableError(f"{subject}: {self.last_error or 'no reply'}") from error
                headers = message.headers or {}
                if "Nats-Sequence" in headers:
                    yield headers, message.data
                elif headers.get("Status") in ("204", "404"):
                    return
                else:
                    raise NatsUnreachableError(f"{subject}: {headers.get('Description', 'refused')}")

    async def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Publish without an acknowledgement. Raises NatsUnreachableError."""
        try:
            await self.client.publish(subject, payload, reply=reply)
        except (NatsError, ConnectionError) as error:
            raise NatsUnreachableError(f"{subject}: {error}") from error

    async def _build(self, servers: list[str] | None = None) -> None:
        servers = servers or _shuffled(self.account.seeds)
        while True:
            client = self._make_client()
            try:
                await client.connect(
                    servers,
                    user=self.account.user or None,
                    password=self.account.password or None,
                    inbox_prefix=self.account.inbox.encode(),
                    name=self.name,
                    connect_timeout=CONNECT_SECONDS,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=self._retry_seconds,  # type: ignore[arg-type]
                    dont_randomize=True,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    pending_size=8 << 20,
                    error_cb=self._on_error,
                    closed_cb=partial(self._on_closed, client),
                    reconnected_cb=self._announce,
                )
            except (NatsError, OSError, TimeoutError) as error:
                self._note(error)
                await asyncio.sleep(self._retry_seconds)
            else:
                self._client = client
                await self._announce()
                return

    async def _announce(self) -> None:
        self.last_error = ""
        for hook in self._hooks:
            await hook()
        async with self._changed:
            self.generation += 1
            self._changed.notify_all()
        if (client := self._client) is not None:
            headers = {"Status": RECONNECTED, "Description": "what was asked before may stay unanswered"}
            for arrived in self._conversations.values():
                arrived.put_nowait(Msg(client, headers=headers))

    async def _on_error(self, error: Exception) -> None:
        self._note(error)

    def _note(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self.last_error:
            log.warning("nats.trouble", url=self.account.url, error=text)
        self.last_error = text

    async def _on_closed(self, client: Client) -> None:
        if self.holds(client):
            self._broken.set()

    async def _watch(self) -> None:
        """Probe the client; replace it when it is closed, or connected but unresponsive.

        In a cluster also when its server does not reach a leader.
        """
        while True:
            in_cluster = len(self._servers()) > 1
            pause, patience = CLUSTER_PROBE_SECONDS if in_cluster else PROBE_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._broken.wait()
            silent = in_cluster and self.silence.is_long(time.monotonic())
            if not self._broken.is_set() and not silent and not await self._is_unresponsive(patience):
                continue
            self.silence.left(time.monotonic())
            log.warning("nats.rebuilding", url=self.account.url, error=self.last_error)
            servers = self._servers()
            discarding = asyncio.create_task(self._discard())
            # The client is no longer in use from here on; closing it may wait for a server that hangs.
            await asyncio.sleep(0)
            self._broken.clear()
            await self._build(servers)
            await discarding

    def _servers(self) -> list[str]:
        """The servers to try, the one in use last: seeds, then those that the cluster has announced."""
        client = self._client
        if client is None:
            return _shuffled(self.account.seeds)
        found = [server.geturl() for server in client.discovered_servers]
        current = client.connected_url
        known = [*_shuffled(self.account.seeds), *found]
        if current is None:
            return known
        used = [server for server in known if urlparse(server).netloc == current.netloc]
        return [server for server in known if server not in used] + used

    async def _is_unresponsive(self, patience: float) -> bool:
        client = self._client
        if client is None or not client.is_connected:
            return False
        try:
            await asyncio.wait_for(client.flush(timeout=ceil(patience) + 1), patience)
        except (NatsError, TimeoutError, ConnectionError):
            return client.is_connected
        return False

    async def _discard(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            # uvloop raises RuntimeError on writing to a connection that the server has closed.
            with contextlib.suppress(NatsError, OSError, TimeoutError, RuntimeError):
                await asyncio.wait_for(client.close(), 2)


def _shuffled(seeds: list[str]) -> list[str]:
    return random.sample(seeds, len(seeds))


def is_no_responders(message: Msg) -> bool:
    """Whether the server reports that nobody subscribes to the subject of a request."""
    return (message.headers or {}).get("Status") == "503"
