"""Who looks at a run, and what all of them together want to see. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.wire.v1.live_pb2 import Interest

# Longer than this a viewer is not remembered after its last word.
REMEMBERED = 3.0
SLOWEST, FASTEST = 1.0, 30.0
NARROWEST, WIDEST = 64, 1280
DEFAULT_WIDTH = 320
MOST_SLOTS = 64
MOST_VIEWERS = 256


class Wish(NamedTuple):
    fps: float
    width: int
    # All when None.
    slots: tuple[int, ...] | None

    def as_json(self) -> dict[str, Any]:
        return {"fps": self.fps, "width": self.width, "slots": self.slots}


class Interests:
    """Times are of a clock that only goes forward."""

    def __init__(self) -> None:
        self._viewers: dict[str, tuple[Wish, float]] = {}

    def hear(self, said: Interest, now: float) -> bool:
        """Note what a viewer says; whether it looks at something that it did not look at before."""
        self._forget(now)
        before = self._viewers.pop(said.viewer, None)
        if said.gone or (before is None and len(self._viewers) >= MOST_VIEWERS):
            return False
        wish = wish_of(said)
        self._viewers[said.viewer] = wish, now + REMEMBERED
        return before is None or before[0].slots != wish.slots

    def wish(self, now: float) -> Wish | None:
        """The most that anybody wants; None when nobody looks."""
        self._forget(now)
        wishes = [wish for wish, _ in self._viewers.values()]
        if not wishes:
            return None
        some = [wish.slots for wish in wishes if wish.slots is not None]
        slots = tuple(sorted({slot for each in some for slot in each})) if len(some) == len(wishes) else None
        return Wish(max(wish.fps for wish in wishes), max(wish.width for wish in wishes), slots)

    def wait(self, now: float) -> float | None:
        """Seconds until somebody may have to be forgotten; None when there is nobody."""
        ends = [end for _, end in self._viewers.values()]
        return max(0.0, min(ends) - now) if ends else None

    def _forget(self, now: float) -> None:
        self._viewers = {name: kept for name, kept in self._viewers.items() if kept[1] > now}


def wish_of(said: Interest) -> Wish:
    """What was asked for, within what is possible. A number that is none counts as the least."""
    fps = min(FASTEST, said.fps) if said.fps > SLOWEST else SLOWEST
    width = min(WIDEST, max(NARROWEST, said.width or DEFAULT_WIDTH))
    slots = tuple(sorted({slot for slot in said.slots if slot < MOST_SLOTS}))
    return Wish(fps, width, slots if said.slots else None)
