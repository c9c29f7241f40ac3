"""What pages do again and again, in one beat for all of them: so that the same is asked at the same moment.

A tab that nobody sees has no pulse, and the beat slows down when the pages together cost too much:
trainers may run on this machine.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import Client, app, background_tasks, ui
from nicegui.slot import Slot

BEAT_SECONDS = 0.1
# Of one core, for everything this process does; the beat slows down above it, up to so many times.
BUDGET, SLOWEST = 0.1, 5.0
WEIGHED_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class Pulse:
    beats: int
    act: Callable[[], Awaitable[None] | None]
    slot: Slot
    # It is to run with the next beat: the page has just been opened, or is seen again.
    waits: bool
    running: asyncio.Task[None] | None = None

    @property
    def is_gone(self) -> bool:
        try:
            return self.slot.parent.is_deleted
        except RuntimeError:
            return True

    def beat(self) -> None:
        if self.running is not None and not self.running.done():
            return
        self.waits = False
        try:
            with self.slot:
                result = self.act()
            if result is not None:
                self.running = background_tasks.create(result, context=self.slot)
        except Exception as error:  # noqa: BLE001 - a mistake on one page must not stop all others
            app.handle_exception(error)


class Heart:
    def __init__(self) -> None:
        self._pages: dict[str, list[Pulse]] = {}
        self._hidden: set[str] = set()
        self._pace = Pace()

    def every(
        self, seconds: float, act: Callable[[], Awaitable[None] | None], *, at_once: bool = True
    ) -> None:
        """For the page that is being drawn: as soon as it is open, then about every so many seconds."""
        client = ui.context.client
        if client.id not in self._pages:
            self._pages[client.id] = []
            client.on_delete(lambda: self._forget(client.id))
        beats = max(1, round(seconds / BEAT_SECONDS))
        self._pages[client.id].append(Pulse(beats, act, ui.context.slot, at_once))

    def listen(self) -> None:
        """Hear from the page that is being drawn whether somebody sees it."""
        client_id = ui.context.client.id
        ui.on("rs-look", lambda event: self._seen(client_id, bool(event.args)))
        ui.run_javascript("rs.look()")

    async def run(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(BEAT_SECONDS * self._pace.stretch())
            for client_id in self._pages.keys() - self._hidden:
                self._beat(client_id, number)

    def _beat(self, client_id: str, number: int) -> None:
        client = Client.instances.get(client_id)
        if client is None or not client.has_socket_connection:
            return
        pulses = self._pages[client_id]
        if any(pulse.is_gone for pulse in pulses):
            pulses[:] = [pulse for pulse in pulses if not pulse.is_gone]
        for pulse in list(pulses):
            if pulse.waits or number % pulse.beats == 0:
                pulse.beat()

    def _seen(self, client_id: str, seen: bool) -> None:
        if not seen:
            self._hidden.add(client_id)
            return
        self._hidden.discard(client_id)
        for pulse in self._pages.get(client_id, ()):
            pulse.waits = True

    def _forget(self, client_id: str) -> None:
        self._pages.pop(client_id, None)
        self._hidden.discard(client_id)


class Pace:
    """How much slower than usual, by what this process has used of a core lately."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.process_time()
        self._stretch = 1.0

    def stretch(self) -> float:
        passed = time.monotonic() - self._at
        if passed >= WEIGHED_SECONDS:
            share = (time.process_time() - self._used) / passed
            # What was used at a slower pace would have been more at the usual one.
            self._stretch = min(SLOWEST, max(1.0, self._stretch * share / BUDGET))
            self._at, self._used = time.monotonic(), time.process_time()
        return self._stretch
