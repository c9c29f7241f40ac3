"""The part of nats-py's Client that Runspine uses, connected to the model cluster."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlparse

from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from tests.simulation.loop import NODE
from tests.simulation.nats.cluster import Cluster, Request, Server, Wire

Callback = Callable[[Msg], Awaitable[None]]


class SimulatedSubscription:
    """One subscription; its callback gets messages one after the other.

    Runspine's callbacks hand a message on and never wait; so none needs a task of its own here.
    """

    def __init__(self, client: SimulatedClient, subject: str, callback: Callback) -> None:
        self.client = client
        self.subject = subject
        self.wire: Wire | None = None
        self._callback = callback

    def arrive(self, subject: str, reply: str, data: bytes, headers: dict[str, str] | None) -> None:
        """Called within the node of the client."""
        owner: Any = self.client
        handing_on: Any = self._callback(Msg(owner, subject, reply, data, headers))
        try:
            handing_on.send(None)
        except StopIteration:
            return
        raise RuntimeError(f"the callback of {self.subject} waits, and holds up all messages after it")

    async def unsubscribe(self) -> None:
        self.client.forget(self)


class SimulatedClient:
    """A client of the model cluster, with the behaviour of nats-py towards its caller."""

    max_payload = 1 << 20
    pending_data_size = 0

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = NODE.get()
        self.is_closed = False
        self.wire: Wire | None = None
        self.discovered_servers: list[Any] = [
            SimpleNamespace(geturl=lambda s=s: s.url) for s in cluster.servers
        ]
        self._subscriptions: list[SimulatedSubscription] = []
        self._servers: deque[str] = deque()
        self._buffer: list[Request] = []
        self._number = cluster.next_client()
        self._asked = itertools.count()
        self._options: dict[str, Any] = {}
        self._reconnecting: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        return self.wire is not None

    @property
    def connected_url(self) -> Any:
        return _parsed(self.wire.server.url) if self.wire else None

    async def connect(self, servers: list[str], **options: Any) -> None:
        self._servers = deque(servers)
        self._options = options
        await self._establish()

    async def _establish(self) -> None:
        """Try the servers in turn until one answers."""
        while True:
            server = self.cluster.by_url(self._servers[0])
            self._servers.rotate(-1)
            if server.alive and await self._greeted(server):
                break
            await asyncio.sleep(self._options["reconnect_time_wait"])
        wire = self.wire = self.cluster.connect(self, server)
        self.cluster.loop.note(f"{self.node.name} at {server.name}")
        for subscription in self._subscriptions:
            self._announce(subscription, wire)
        buffered, self._buffer = self._buffer, []
        for request in buffered:
            self._send(wire, request)

    async def _greeted(self, server: Server) -> bool:
        """Whether the server answers within the time to connect."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wire = Wire(self, server, -1)
        self.cluster.up(wire, lambda: self.cluster.down(wire, lambda: _resolve(answered, None)))
        try:
            async with asyncio.timeout(self._options["connect_timeout"]):
                await answered
        except TimeoutError:
            return False
        return server.alive

    def lost(self, wire: Wire) -> None:
        """The connection broke; called within the node."""
        if self.wire is not wire or self.is_closed:
            return
        self.wire = None
        self.cluster.reached("client.reconnect")
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect())

    async def _reconnect(self) -> None:
        await asyncio.sleep(0)
        await self._establish()
        if not self.is_closed:
            await self._options["reconnected_cb"]()

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if self.is_closed:
            raise ConnectionClosedError
        request = Request(subject, reply, dict(headers or {}), payload)
        if self.wire is None:
            self._buffer.append(request)
        else:
            self._send(self.wire, request)

    def _send(self, wire: Wire, request: Request) -> None:
        self.cluster.up(wire, lambda: self.cluster.arrive(wire, request))

    async def subscribe(self, subject: str, cb: Callback, **_: Any) -> SimulatedSubscription:
        if self.is_closed:
            raise ConnectionClosedError
        subscription = SimulatedSubscription(self, subject, cb)
        self._subscriptions.append(subscription)
        if self.wire is not None:
            self._announce(subscription, self.wire)
        return subscription

    def _announce(self, subscription: SimulatedSubscription, wire: Wire) -> None:
        def subscribed() -> None:
            if subscription in self._subscriptions and wire.open:
                self.cluster.unsubscribe(subscription)
                subscription.wire = wire
                self.cluster.subscribe(subscription)

        self.cluster.up(wire, subscribed)

    def forget(self, subscription: SimulatedSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        if self.wire is not None:
            self.cluster.up(self.wire, lambda: self.cluster.unsubscribe(subscription))
        else:
            self.cluster.unsubscribe(subscription)

    async def request(self, subject: str, payload: bytes = b"", timeout: float = 0.5) -> Msg:
        answered: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        inbox = f"{self._options['inbox_prefix'].decode()}.one.{self._number}"

        async def keep(message: Msg) -> None:
            _resolve(answered, message)

        subscription = await self.subscribe(f"{inbox}.{next(self._asked)}", keep)
        try:
            await self.publish(subject, payload, reply=subscription.subject)
            async with asyncio.timeout(timeout):
                message = await answered
        except TimeoutError:
            raise NatsTimeoutError from None
        finally:
            self.forget(subscription)
        if (message.headers or {}).get("Status") == "503":
            raise NoRespondersError
        return message

    async def flush(self, timeout: float = 10) -> None:
        if self.wire is None:
            raise ConnectionClosedError
        wire = self.wire
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.cluster.up(wire, lambda: self.cluster.down(wire, lambda: _resolve(answered, None)))
        try:
            async with asyncio.timeout(timeout):
                await answered
        except TimeoutError:
            raise NatsTimeoutError from None

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        for subscription in list(self._subscriptions):
            self.cluster.unsubscribe(subscription)
        if self.wire is not None:
            self.cluster.disconnect(self.wire)
            self.wire = None
        await self._options["closed_cb"]()

    def vanish(self) -> None:
        """The process was killed: its server notices."""
        self.is_closed = True
        for subscription in self._subscriptions:
            self.cluster.unsubscribe(subscription)
        if self.wire is not None:
            self.cluster.disconnect(self.wire)


@cache
def _parsed(url: str) -> Any:
    return urlparse(url)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
