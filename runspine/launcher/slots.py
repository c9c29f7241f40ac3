"""Which slot an env is for, told to `gymnasium.make` by whoever calls the function that calls it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple


class Place(NamedTuple):
    slot: int
    # Whether it is the script's own evaluation, not its training.
    evaluation: bool = False


class _Here(threading.local):
    place: Place | None = None


_here = _Here()


@contextlib.contextmanager
def at(place: Place) -> Iterator[None]:
    before, _here.place = _here.place, place
    try:
        yield
    finally:
        _here.place = before


def take_place() -> Place | None:
    """Where the env being made belongs; once, because a second one in there is another env."""
    place, _here.place = _here.place, None
    return place


class InSlot:
    """A function that makes an env, in its place. A class of a module, so that it can be pickled."""

    def __init__(self, make: Callable[[], Any], place: Place) -> None:
        self.make = make
        self.place = place

    def __call__(self) -> Any:
        with at(self.place):
            return self.make()


class Ledger:
    """Who has which slots. Given back, they are for others of the same kind alone.

    A slot is one env to whoever replays it: it must not be a FrozenLake first and a CartPole later.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[Hashable, int], list[range]] = {}
        self._held: dict[int, tuple[Hashable, range]] = {}
        self._next = 0
        self._tickets = 0

    def take(self, count: int, kind: Hashable) -> tuple[int, range]:
        """A ticket to give them back with, and so many in a row."""
        free = self._free.get((kind, count))
        if free:
            slots = free.pop()
        else:
            slots = range(self._next, self._next + count)
            self._next = slots.stop
        self._tickets += 1
        self._held[self._tickets] = kind, slots
        return self._tickets, slots

    def give_back(self, ticket: int) -> None:
        if ticket in self._held:
            kind, slots = self._held.pop(ticket)
            self._free.setdefault((kind, len(slots)), []).append(slots)
