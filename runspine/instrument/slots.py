"""Slots of envs: passed to `gymnasium.make` from the function of a vector env that calls it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple


class SlotPlace(NamedTuple):
    """Slot of an env."""

    slot: int
    # Whether it belongs to the script's own evaluation, not to its training.
    evaluation: bool = False


class _Here(threading.local):
    place: SlotPlace | None = None


_here = _Here()


@contextlib.contextmanager
def at(place: SlotPlace) -> Iterator[None]:
    before, _here.place = _here.place, place
    try:
        yield
    finally:
        _here.place = before


def take_place() -> SlotPlace | None:
    """Slot of the env being made; only once, because a second env within it is another one."""
    place, _here.place = _here.place, None
    return place


class InSlot:
    """A function that makes an env in a slot. A class at module level, so that it can be pickled."""

    def __init__(self, make: Callable[[], Any], place: SlotPlace) -> None:
        self.make = make
        self.place = place

    def __call__(self) -> Any:
        with at(self.place):
            return self.make()


class SlotLedger:
    """Slots in use. A slot that is given back is reused only for envs of the same kind.

    For replay a slot is one env: it must not be a FrozenLake first and a CartPole later.
    """

    def __init__(self, new_slots: Callable[[int], int]) -> None:
        """`new_slots` gives the first of so many slots that no process of the run has."""
        self._new_slots = new_slots
        self._free: dict[tuple[Hashable, int], list[range]] = {}
        self._held: dict[int, tuple[Hashable, range]] = {}
        self._tickets = 0

    def take(self, count: int, kind: Hashable) -> tuple[int, range]:
        """Take `count` consecutive slots; return a ticket to give them back, and the slots."""
        free = self._free.get((kind, count))
        if free:
            slots = free.pop()
        else:
            first = self._new_slots(count)
            slots = range(first, first + count)
        self._tickets += 1
        self._held[self._tickets] = kind, slots
        return self._tickets, slots

    def forked(self) -> None:
        """Slots that are held or free are the parent's."""
        self._free, self._held = {}, {}

    def emptied(self) -> set[int]:
        """Give up all slots, held or free; they are returned."""
        ranges = [slots for _, slots in self._held.values()]
        ranges += [slots for some in self._free.values() for slots in some]
        self.forked()
        return {slot for slots in ranges for slot in slots}

    def give_back(self, ticket: int) -> None:
        if ticket in self._held:
            kind, slots = self._held.pop(ticket)
            self._free.setdefault((kind, len(slots)), []).append(slots)
