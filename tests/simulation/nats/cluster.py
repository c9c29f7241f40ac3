"""A model of one nats-server, or of a cluster of three: servers, routes, subscriptions, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from runspine.eventlog import memory
from runspine.eventlog.server_errors import ServerError
from tests.simulation.clocks import EPOCH
from tests.simulation.loop import SimulatedLoop
from tests.simulation.nats.api import Api
from tests.simulation.nats.consumer import Consumer
from tests.simulation.nats.group import ELECTION_SECONDS, Group
from tests.simulation.nats.stream import StreamStore
from tests.simulation.network import Network

if TYPE_CHECKING:
    from tests.simulation.nats.client import SimulatedClient, SimulatedSubscription

START_SECONDS = (0.5, 3.0)
matches = lru_cache(1 << 14)(memory.matches)


@dataclass(frozen=True, slots=True)
class Request:
    """A message that a client has published."""

    subject: str
    reply: str
    headers: dict[str, str]
    data: bytes


@dataclass(slots=True, eq=False)
class Server:
    """One nats-server."""

    name: str
    alive: bool = True
    frozen: bool = False
    # Its replicas apply commits late.
    behind: bool = False
    # Its disk takes nothing.
    full: bool = False
    parked: list[Callable[[], None]] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"nats://{self.name}:4222"


@dataclass(slots=True, eq=False)
class Wire:
    """The connection of a client to a server."""

    client: SimulatedClient
    server: Server
    number: int
    open: bool = True


class Cluster:
    """Servers with streams and consumers, and what can happen to them."""

    def __init__(
        self, loop: SimulatedLoop, network: Network, reached: Callable[[str], None], count: int = 3
    ) -> None:
        self.loop = loop
        self.network = network
        self.random = loop.random
        self.reached = reached
        self.servers = [Server(f"n{number}") for number in range(1, count + 1)]
        self.url = ",".join(server.url for server in self.servers)
        self.meta = Group(self, "meta", self.servers, StreamStore({"subjects": []}))
        self.streams: dict[str, Group] = {}
        self.consumers: dict[tuple[str, str], Consumer] = {}
        self.api = Api(self)
        # Errors that some requests are answered with for now, and streams that store nothing for now.
        self.refusing: list[ServerError] = []
        self.stalled: set[str] = set()
        # Called with the leader that takes the next append, once.
        self.on_append: Callable[[Server], None] | None = None
        # Called with each message that has arrived from a client; True when it goes no further.
        self.on_arrival: Callable[[Wire, Request], bool] | None = None
        # How often a follower applies commits late for no reason.
        self.stall_share = 0.03
        # When a deposed leader answered a read, and of which subject.
        self.old_answers: list[tuple[float, str]] = []
        self._wires = 0
        self._clients = 0
        self._exact: dict[str, list[SimulatedSubscription]] = {}
        self._starred: dict[str, list[SimulatedSubscription]] = {}
        self._wide: list[SimulatedSubscription] = []

    @property
    def wall(self) -> float:
        return EPOCH + self.loop.now

    def by_url(self, url: str) -> Server:
        return next(server for server in self.servers if server.url == url)

    # Clients.

    def next_client(self) -> int:
        self._clients += 1
        return self._clients

    def connect(self, client: SimulatedClient, server: Server) -> Wire:
        self._wires += 1
        wire = Wire(client, server, self._wires)
        server.wires.append(wire)
        return wire

    def disconnect(self, wire: Wire) -> None:
        wire.open = False
        if wire in wire.server.wires:
            wire.server.wires.remove(wire)

    def up(self, wire: Wire, work: Callable[[], None]) -> None:
        """From a client to its server, in order."""

        def arrive() -> None:
            if wire.open and wire.server.alive:
                self._at(wire.server, work)

        self.network.send(wire.client.node.name, wire.server.name, arrive, wire.number)

    def down(self, wire: Wire, work: Callable[[], None]) -> None:
        """From a server to a client, in order."""

        def arrive() -> None:
            if wire.open and wire.client.node.alive:
                self.loop.within(wire.client.node, work)

        self.network.send(wire.server.name, wire.client.node.name, arrive, wire.number)

    def forward(self, source: Server, target: Server, work: Callable[[], None]) -> None:
        """From server to server; lost when the target is down, held while it is frozen."""
        if source is target:
            work()
            return

        def arrive() -> None:
            if target.alive:
                self._at(target, work)

        self.network.send(source.name, target.name, arrive)

    def _at(self, server: Server, work: Callable[[], None]) -> None:
        if server.frozen:
            server.parked.append(work)
        else:
            work()

    def subscribe(self, subscription: SimulatedSubscription) -> None:
        self._subscribers(subscription.subject).append(subscription)

    def unsubscribe(self, subscription: SimulatedSubscription) -> None:
        place = self._subscribers(subscription.subject)
        if subscription in place:
            place.remove(subscription)

    def _subscribers(self, subject: str) -> list[SimulatedSubscription]:
        if subject.endswith(".*") and "*" not in subject[:-2]:
            return self._starred.setdefault(subject[:-2], [])
        if "*" in subject or ">" in subject:
            return self._wide
        return self._exact.setdefault(subject, [])

    def _interested(self, subject: str) -> Iterator[SimulatedSubscription]:
        yield from self._exact.get(subject, ())
        yield from self._starred.get(subject.rpartition(".")[0], ())
        for one in self._wide:
            if matches(one.subject, subject):
                yield one

    def listens(self, subject: str) -> bool:
        if self._exact.get(subject) or self._starred.get(subject.rpartition(".")[0]):
            return True
        return any(matches(one.subject, subject) for one in self._wide)

    def arrive(self, wire: Wire, request: Request) -> None:
        """A client's message has arrived at its server; a fault may have aimed at it."""
        if self.on_arrival is None or not self.on_arrival(wire, request):
            self.accept(wire.server, request)

    def accept(self, server: Server, request: Request) -> None:
        """Carry out what a client's message asks for."""
        self.loop.note(f"{request.subject} {request.reply}")
        self.loop.note(request.data)
        if request.subject.startswith("$JS."):
            self.api.call(server, request)
            return
        listening = self.listens(request.subject)
        if listening:
            self.respond(server, request.subject, request.data, request.headers, request.reply)
        group = self.stream_of(request.subject)
        if group is not None:
            self.api.publish(server, group, request)
        elif not listening:
            self.no_responders(server, request)

    def no_responders(self, server: Server, request: Request) -> None:
        if request.reply:
            self.reached("nats.503")
            self.respond(server, request.reply, b"", {"Status": "503"})

    def respond(
        self,
        server: Server,
        inbox: str,
        data: bytes,
        headers: dict[str, str] | None = None,
        reply: str = "",
        subject: str = "",
    ) -> None:
        """Deliver to every subscriber of a subject, across servers."""
        for subscription in list(self._interested(inbox)):
            wire = subscription.wire
            if wire is not None and wire.open:
                self._deliver(server, wire, subscription, (subject or inbox, reply, data, headers))

    def _deliver(
        self, server: Server, wire: Wire, subscription: SimulatedSubscription, message: tuple[Any, ...]
    ) -> None:
        def arrive() -> None:
            subscription.arrive(*message)

        self.forward(server, wire.server, lambda: self.down(wire, arrive))

    def stream_of(self, subject: str) -> Group | None:
        for group in self.streams.values():
            if group.store.takes(subject):
                return group
        return None

    def pump(self, stream: str, server: Server) -> None:
        """A replica shows more: its consumers hand it out."""
        for consumer in list(self.consumers.values()):
            if consumer.host is server and consumer.group.name == stream:
                consumer.pump()

    # Faults.

    def kill(self, server: Server, seconds: float) -> None:
        """kill -9, and a start after so many seconds."""
        if not server.alive:
            return
        self.loop.note(f"kill {server.name}")
        server.alive, server.frozen = False, False
        server.parked.clear()
        for wire in list(server.wires):
            self.disconnect(wire)
            client = wire.client
            self.loop.after(self.random.uniform(0.0, 0.01), self.loop.within, client.node, client.lost, wire)
        for key, consumer in list(self.consumers.items()):
            if consumer.host is server and not consumer.durable:
                del self.consumers[key]
        self.changed()
        self.loop.after(seconds + self.random.uniform(*START_SECONDS), self._start, server)

    def _start(self, server: Server) -> None:
        server.alive = True
        self.changed()

    def freeze(self, server: Server, seconds: float) -> None:
        if not server.alive or server.frozen:
            return
        self.loop.note(f"freeze {server.name}")
        server.frozen = True
        self.changed()
        self.loop.after(seconds, self.thaw, server)

    def thaw(self, server: Server) -> None:
        if not server.frozen:
            return
        server.frozen = False
        parked, server.parked = server.parked, []
        for work in parked:
            work()
        self.changed()
        for name in self.streams:
            self.pump(name, server)

    def isolate(self, server: Server, *, clients: list[str], one_way: bool = False) -> None:
        """Cut a server off from the others, and from these clients."""
        self.loop.note(f"isolate {server.name} {clients} {one_way}")
        others = [other.name for other in self.servers if other is not server] + clients
        for other in others:
            self.network.cut(server.name, other)
            if not one_way:
                self.network.cut(other, server.name)
        self.changed()

    def grant_again(self) -> None:
        """What consumers of work have handed out is due again, as if they had never done so."""
        for consumer in self.consumers.values():
            if consumer.durable:
                consumer.forget_grants()

    def drop(self, wire: Wire) -> None:
        """A connection breaks: what was under way on it is lost."""
        if not wire.open:
            return
        self.disconnect(wire)
        self.loop.within(wire.client.node, wire.client.lost, wire)

    def heal(self) -> None:
        self.network.heal()
        for server in self.servers:
            server.behind = server.full = False
        self.changed()

    def changed(self) -> None:
        """Who is up, or who reaches whom, has changed."""
        for group in (self.meta, *self.streams.values()):
            group.check()
        for consumer in self.consumers.values():
            if consumer.durable and not consumer.group.healthy(consumer.host):
                self.loop.after(self.random.uniform(*ELECTION_SECONDS), self._move, consumer)

    def _move(self, consumer: Consumer) -> None:
        if consumer.group.healthy(consumer.host):
            return
        able = [server for server in consumer.group.members if consumer.group.healthy(server)]
        if able:
            consumer.move(self.random.choice(able))
        else:
            self.loop.after(1.0, self._move, consumer)
