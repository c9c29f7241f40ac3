"""Live frames of this process: drawn only while there are viewers, at the rate they request."""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from runspine.sdk.drawing import Picture, Surface
from runspine.sdk.view_channel import ViewChannel

DEFAULT_WIDTH = 320
MAX_SLOTS = 64
# Share of the training thread's time for drawing: training goes on however long a frame takes.
MAX_SHARE = 0.75
MAX_PIXELS = 4 << 20
# Until an env that could not be drawn is tried again.
RETRY_SECONDS = 5.0
# No slot waits longer: a larger value means that the clock was set back.
MAX_WAIT_SECONDS = 60.0
MAX_COMMANDS = 1024


class ViewRequest(NamedTuple):
    """Frames requested by all viewers together."""

    interval: float
    width: int
    # All when None.
    slots: frozenset[int] | None

    def includes(self, slot: int) -> bool:
        return slot < MAX_SLOTS and (self.slots is None or slot in self.slots)


class TrainerView:
    """View of one process. Opened by the first `due`, so that forked children open their own."""

    def __init__(self, path: str) -> None:
        self._path = path
        # False while `due` has nothing to do: the only cost for a trainer without viewers.
        self.alert = bool(path)
        self.request: ViewRequest | None = None
        # Number of slots.
        self.slots = 0
        # Further fields shown with every frame, by the names of `Hud`.
        self.about: dict[str, Any] = {}
        # Commands of viewers to the actor: {"input": …}, {"actor": …}, {"pace": …}.
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue(MAX_COMMANDS)
        # Frames drawn so far.
        self.drawn = 0
        self._channel: ViewChannel | None = None
        self._next: dict[int, float] = {}
        self._costs: dict[int, float] = {}

    def open(self) -> None:
        """Connect to the worker. Stepping a recorded env does this by itself."""
        if self._path and self._channel is None:
            self.alert = False
            # A process may be out of threads; then there are no frames.
            with contextlib.suppress(RuntimeError):
                self._channel = ViewChannel(self._path, self._receive)

    def due(self, slot: int, now: float) -> bool:
        """Whether the slot should be drawn now."""
        self.open()
        request = self.request
        if request is None or not request.includes(slot):
            return False
        return not 0 < self._next.get(slot, 0.0) - now <= MAX_WAIT_SECONDS

    def wait(self, slot: int, now: float) -> float:
        """Seconds until the slot is due; infinite without a viewer."""
        request = self.request
        if request is None or not request.includes(slot):
            return math.inf
        return max(0.0, self._next.get(slot, 0.0) - now)

    def take(self, slot: int, now: float, draw: Callable[[], Picture], hud: dict[str, Any]) -> None:
        """Draw and send a slot that is due. An error is sent in place of the frame, never raised."""
        began = time.perf_counter()
        try:
            self.show(slot, draw(), hud)
        except Exception as error:  # noqa: BLE001 - an env may raise anything, and must not be disturbed
            self.show_trouble(slot, str(error) or type(error).__name__, hud)
            self._next[slot] = now + RETRY_SECONDS
            return
        self.drawn += 1
        self._plan(slot, now, time.perf_counter() - began)

    def show(self, slot: int, frame: Picture, hud: dict[str, Any]) -> None:
        """Send a frame to viewers; the newest of each slot wins."""
        request = self.request
        if request is None or not request.includes(slot):
            return
        copy = thinned(frame, request.width)
        height, width, _ = copy.shape
        what = {"width": width, "height": height, "bgrx": isinstance(frame, Surface)}
        self._put(slot, what, hud, copy.reshape(-1).data)

    def show_trouble(self, slot: int, why: str, hud: dict[str, Any]) -> None:
        """Send the reason why there is no frame of this slot."""
        self._put(slot, {"width": 0, "height": 0, "trouble": why[:500]}, hud, memoryview(b""))

    def forked(self) -> None:
        """Reset the state after a fork: the child opens a socket of its own."""
        if self._channel is not None:
            self._channel.leave()
        self._channel, self.request, self.alert = None, None, bool(self._path)
        self.commands = queue.Queue(MAX_COMMANDS)

    def _put(self, slot: int, what: dict[str, Any], hud: dict[str, Any], data: memoryview) -> None:
        if self._channel is not None:
            header = {
                "slot": slot,
                **what,
                "at": time.time(),
                "slots": self.slots,
                "hud": {**hud, **self.about},
            }
            self._channel.put(slot, header, data)

    def _plan(self, slot: int, now: float, seconds: float) -> None:
        """Set when the slot is due again: as requested, or later when all slots would take too much time."""
        request = self.request
        if request is None:
            return
        self._costs[slot] = seconds
        interval = max(request.interval, sum(self._costs.values()) / MAX_SHARE)
        # One time grid for all slots: drawing, sending and showing them together costs less.
        self._next[slot] = (math.floor(now / interval) + 1) * interval

    def _receive(self, message: dict[str, Any]) -> None:
        if "look" in message:
            self.request = parse_request(message["look"])
            self._costs.clear()
            self._next.clear()
            self.alert = self.request is not None
            return
        # Nothing takes them in a run that is not played: the newest are kept.
        while True:
            try:
                self.commands.put_nowait(message)
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self.commands.get_nowait()
            else:
                return


def parse_request(fields: Any) -> ViewRequest | None:
    """Parse the worker's `look` message. Raises ValueError."""
    if fields is None:
        return None
    try:
        slots: Iterable[int] | None = fields["slots"]
        wanted = None if slots is None else frozenset(int(slot) for slot in slots)
        return ViewRequest(
            1 / min(60.0, max(0.1, float(fields["fps"]))), int(fields["width"]) or DEFAULT_WIDTH, wanted
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a look: {fields!r}") from error


def thinned(frame: Picture, width: int) -> Picture:
    """Copy every n-th pixel, at most twice the requested width. The worker scales exactly."""
    rows, columns = frame.shape[:2]
    by_width = -(-columns // (2 * max(1, width)))
    by_area = math.ceil(math.sqrt(rows * columns / MAX_PIXELS))
    stride = max(1, by_width, by_area)
    # Always a copy: an env may draw the next frame into the same memory.
    if isinstance(frame, Surface):
        # Four bytes at a time, which is four times as fast.
        return np.array(frame.view(np.uint32)[::stride, ::stride], order="C").view(np.uint8)
    return np.array(frame[::stride, ::stride, :3], dtype=np.uint8, order="C")
