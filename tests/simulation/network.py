"""Links between processes and servers: what is sent arrives in order, later, or never."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.loop import SimulatedLoop

USUAL_SECONDS = (0.0001, 0.001)
SLOW_SECONDS = (0.02, 0.4)


class Network:
    """Who reaches whom. A cut holds messages back as TCP does, until it is healed or the connection ends."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.random: Random = loop.random
        # How often a message is slow for no reason.
        self.slow_share = 0.01
        self._cuts: set[tuple[str, str]] = set()
        self._slow: set[str] = set()
        self._held: list[tuple[str, str, Callable[[], None]]] = []
        self._last: dict[tuple[str, str, int], float] = {}

    def reaches(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts

    def linked(self, one: str, other: str) -> bool:
        """Whether messages pass both ways."""
        return self.reaches(one, other) and self.reaches(other, one)

    def cut(self, source: str, target: str) -> None:
        self._cuts.add((source, target))

    def heal(self) -> None:
        """Every link passes again; what was held back arrives."""
        self._cuts.clear()
        self._slow.clear()
        held, self._held = self._held, []
        for source, target, deliver in held:
            self.send(source, target, deliver)

    def slow(self, name: str) -> None:
        self._slow.add(name)

    def delay(self, source: str, target: str) -> float:
        chance = self.random.random()
        slow = chance < self.slow_share or (self._slow and (source in self._slow or target in self._slow))
        least, most = SLOW_SECONDS if slow else USUAL_SECONDS
        return least + (most - least) * self.random.random()

    def send(self, source: str, target: str, deliver: Callable[[], None], lane: int = 0) -> None:
        """Deliver after what was sent before on the same lane (a TCP connection)."""
        if (source, target) in self._cuts:
            self._held.append((source, target, deliver))
            return
        key = (source, target, lane)
        at = self.loop.now + self.delay(source, target)
        before = self._last.get(key, at)
        self._last[key] = at = before if before > at else at
        self.loop.at(at, self._arrive, source, target, deliver)

    def _arrive(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        if (source, target) in self._cuts:
            self._held.append((source, target, deliver))
        else:
            deliver()
