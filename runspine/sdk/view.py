"""What viewers see of this process: drawn only while somebody looks, at the rate they ask for."""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from runspine.sdk.drawing import Picture, Surface
from runspine.sdk.post import Post

DEFAULT_WIDTH = 320
MOST_SLOTS = 64
# Of the training thread's time, for drawing: however dear the pictures, training goes on.
MOST_SHARE = 0.75
MOST_PIXELS = 4 << 20
# An env that could not be drawn is tried again after so long.
TROUBLE_SECONDS = 5.0
# No slot ever waits longer: if it seems so, the clock was put back.
LONGEST_SECONDS = 60.0
MOST_COMMANDS = 1024


class Look(NamedTuple):
    """What viewers want to see, all of them together."""

    interval: float
    width: int
    # All when None.
    slots: frozenset[int] | None

    def includes(self, slot: int) -> bool:
        return slot < MOST_SLOTS and (self.slots is None or slot in self.slots)


class View:
    """One for a process. Opened by the first look at the clock, so that forked children open their own."""

    def __init__(self, path: str) -> None:
        self._path = path
        # False while there is nothing to do in `due`: all that a trainer pays when nobody looks.
        self.alert = bool(path)
        self.look: Look | None = None
        # Slots that there are to see.
        self.slots = 0
        # What else stands beside every picture, by the names of `Hud`.
        self.about: dict[str, Any] = {}
        # What viewers say to whoever acts here: {"input": …}, {"actor": …}, {"pace": …}.
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue(MOST_COMMANDS)
        # Pictures drawn so far.
        self.drawn = 0
        self._post: Post | None = None
        self._next: dict[int, float] = {}
        self._costs: dict[int, float] = {}

    def open(self) -> None:
        """Begin to listen. Whoever steps a recorded env need not call it."""
        if self._path and self._post is None:
            self.alert = False
            # A process may be out of threads; then nobody looks.
            with contextlib.suppress(RuntimeError):
                self._post = Post(self._path, self._hear)

    def due(self, slot: int, now: float) -> bool:
        """Whether the slot should be drawn now."""
        self.open()
        look = self.look
        if look is None or not look.includes(slot):
            return False
        return not 0 < self._next.get(slot, 0.0) - now <= LONGEST_SECONDS

    def wait(self, slot: int, now: float) -> float:
        """Seconds until the slot is due; for ever when nobody looks at it."""
        look = self.look
        if look is None or not look.includes(slot):
            return math.inf
        return max(0.0, self._next.get(slot, 0.0) - now)

    def take(self, slot: int, now: float, draw: Callable[[], Picture], hud: dict[str, Any]) -> None:
        """Draw a slot that is due, and show it. What goes wrong is shown in its place, never raised."""
        began = time.perf_counter()
        try:
            self.show(slot, draw(), hud)
        except Exception as error:  # noqa: BLE001 - an env may raise anything, and must not be disturbed
            self.say_trouble(slot, str(error) or type(error).__name__, hud)
            self._next[slot] = now + TROUBLE_SECONDS
            return
        self.drawn += 1
        self._plan(slot, now, time.perf_counter() - began)

    def show(self, slot: int, frame: Picture, hud: dict[str, Any]) -> None:
        """Send a picture to whoever looks; the newest of each slot wins."""
        look = self.look
        if look is None or not look.includes(slot):
            return
        copy = thinned(frame, look.width)
        height, width, _ = copy.shape
        what = {"width": width, "height": height, "bgrx": isinstance(frame, Surface)}
        self._put(slot, what, hud, copy.reshape(-1).data)

    def say_trouble(self, slot: int, why: str, hud: dict[str, Any]) -> None:
        """Why there is no picture of this slot."""
        self._put(slot, {"width": 0, "height": 0, "trouble": why[:500]}, hud, memoryview(b""))

    def forked(self) -> None:
        """In a child process: the socket is the parent's, and a child opens its own."""
        if self._post is not None:
            self._post.leave()
        self._post, self.look, self.alert = None, None, bool(self._path)
        self.commands = queue.Queue(MOST_COMMANDS)

    def _put(self, slot: int, what: dict[str, Any], hud: dict[str, Any], data: memoryview) -> None:
        if self._post is not None:
            said = {
                "slot": slot,
                **what,
                "at": time.time(),
                "slots": self.slots,
                "hud": {**hud, **self.about},
            }
            self._post.put(slot, said, data)

    def _plan(self, slot: int, now: float, seconds: float) -> None:
        """When the slot is due again: as asked, but later when all of them would take too much time."""
        look = self.look
        if look is None:
            return
        self._costs[slot] = seconds
        interval = max(look.interval, sum(self._costs.values()) / MOST_SHARE)
        # On one grid for all slots: they are drawn, sent and shown together, which costs everybody less.
        self._next[slot] = (math.floor(now / interval) + 1) * interval

    def _hear(self, said: dict[str, Any]) -> None:
        if "look" in said:
            self.look = look_of(said["look"])
            self._costs.clear()
            self._next.clear()
            self.alert = self.look is not None
            return
        # Nobody takes them in a run that is not played: the newest are kept.
        while True:
            try:
                self.commands.put_nowait(said)
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self.commands.get_nowait()
            else:
                return


def look_of(said: Any) -> Look | None:
    """The worker's words for it. Raises ValueError on anything else."""
    if said is None:
        return None
    try:
        slots: Iterable[int] | None = said["slots"]
        wanted = None if slots is None else frozenset(int(slot) for slot in slots)
        return Look(1 / min(60.0, max(0.1, float(said["fps"]))), int(said["width"]) or DEFAULT_WIDTH, wanted)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a look: {said!r}") from error


def thinned(frame: Picture, width: int) -> Picture:
    """A copy with every n-th pixel, at most twice as wide as wanted. The worker does the fine scaling."""
    rows, columns = frame.shape[:2]
    by_width = -(-columns // (2 * max(1, width)))
    by_area = math.ceil(math.sqrt(rows * columns / MOST_PIXELS))
    stride = max(1, by_width, by_area)
    # A copy in any case: an env may draw the next one into the same memory.
    if isinstance(frame, Surface):
        # Four bytes at a time, which is four times as fast.
        return np.array(frame.view(np.uint32)[::stride, ::stride], order="C").view(np.uint8)
    return np.array(frame[::stride, ::stride, :3], dtype=np.uint8, order="C")
