"""What goes wrong with one message of a client: chosen by its subject, because the next message of a certain
kind is hardly ever the one that a fault at a random time meets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.simulation.faults import Strike
from tests.simulation.nats.cluster import Request, Wire
from tests.simulation.world import World

# A writer sends again after two seconds: a message that is later than that crosses its own copy.
LATE_SECONDS = (0.5, 4.0)
MOST_SKIPPED = 3
COUNTS = (1, 1, 3)

# What becomes of a message that has reached the server of its client.
Fate = Callable[[Wire, Request], None]


class InFlightFaults:
    """Messages that are lost on a route, with their connection, or late; and replies that are lost.

    `words` are parts of subjects: one is drawn, and the next messages with it are struck.
    """

    def __init__(self, world: World, words: Sequence[str]) -> None:
        self._world = world
        self._words = words

    def kinds(self) -> list[Strike]:
        return [self._lose, self._lose_with_connection, self._lose_reply, self._delay]

    def _strike(self, chance: Random, fate: Fate) -> None:
        cluster, word = self._world.cluster, chance.choice(self._words)
        skipped, count = chance.randrange(MOST_SKIPPED), chance.choice(COUNTS)

        def arrived(wire: Wire, request: Request) -> bool:
            nonlocal skipped, count
            if word not in request.subject.split("."):
                return False
            if skipped:
                skipped -= 1
                return False
            count -= 1
            if not count:
                cluster.on_arrival = None
            fate(wire, request)
            return True

        cluster.on_arrival = arrived

    def _lose(self, chance: Random) -> str:
        """Lost between two servers: the client notices nothing but that no reply comes."""
        self._strike(chance, lambda *_: None)
        return "message_lost"

    def _lose_with_connection(self, chance: Random) -> str:
        self._strike(chance, lambda wire, _: self._world.cluster.drop(wire))
        return "message_lost_with_connection"

    def _lose_reply(self, chance: Random) -> str:
        """It takes effect, and its client is connected elsewhere when the reply is due."""

        def fate(wire: Wire, request: Request) -> None:
            self._world.cluster.accept(wire.server, request)
            self._world.cluster.drop(wire)

        self._strike(chance, fate)
        return "reply_lost"

    def _delay(self, chance: Random) -> str:
        """On a route that is down for a while: it may arrive after its own copy."""
        seconds = chance.uniform(*LATE_SECONDS)

        def late(wire: Wire, request: Request) -> None:
            if wire.server.alive:
                self._world.cluster.accept(wire.server, request)

        self._strike(chance, lambda wire, request: self._world.loop.after(seconds, late, wire, request))
        return "message_late"
