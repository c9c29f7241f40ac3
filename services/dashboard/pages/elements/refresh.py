"""Periodic refresh of all pages on one common tick, so that equal queries coincide and are shared.

Hidden tabs are not refreshed. Ticks slow down when the pages together use too much CPU: trainers may run on
this machine.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import Client, app, background_tasks, ui
from nicegui.slot import Slot

TICK_SECONDS = 0.1
# Share of one core that this process may use; above it ticks slow down, up to MAX_SLOWDOWN times.
CPU_BUDGET, MAX_SLOWDOWN = 0.1, 5.0
MEASURE_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class RefreshTask:
    """One action that a page repeats."""

    ticks: int
    act: Callable[[], Awaitable[None] | None]
    slot: Slot
    # Runs with the next tick: the page has just been opened or become visible.
    is_due: bool
    running: asyncio.Task[None] | None = None

    @property
    def is_gone(self) -> bool:
        try:
            return self.slot.parent.is_deleted
        except RuntimeError:
            return True

    def start(self) -> None:
        if self.running is not None and not self.running.done():
            return
        self.is_due = False
        try:
            with self.slot:
                result = self.act()
            if result is not None:
                self.running = background_tasks.create(result, context=self.slot)
        except Exception as error:  # noqa: BLE001 - an error of one page must not stop the others
            app.handle_exception(error)


class Refresher:
    """Runs the refresh tasks of all open and visible pages."""

    def __init__(self) -> None:
        self._pages: dict[str, list[RefreshTask]] = {}
        self._hidden: set[str] = set()
        self._pace = RefreshPace()

    def every(
        self, seconds: float, act: Callable[[], Awaitable[None] | None], *, at_once: bool = True
    ) -> None:
        """Repeat `act` for the page that is being drawn, about every so many seconds.

        With `at_once` it also runs as soon as the page is open.
        """
        client = ui.context.client
        if client.id not in self._pages:
            self._pages[client.id] = []
            client.on_delete(lambda: self._forget(client.id))
        ticks = max(1, round(seconds / TICK_SECONDS))
        self._pages[client.id].append(RefreshTask(ticks, act, ui.context.slot, at_once))

    def track_visibility(self) -> None:
        """Have the page that is being drawn report whether its tab is visible."""
        client_id = ui.context.client.id
        ui.on("rs-visibility", lambda event: self._set_visible(client_id, bool(event.args)))
        ui.run_javascript("rs.reportVisibility()")

    async def run(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(TICK_SECONDS * self._pace.stretch())
            for client_id in self._pages.keys() - self._hidden:
                self._tick(client_id, number)

    def _tick(self, client_id: str, number: int) -> None:
        client = Client.instances.get(client_id)
        if client is None or not client.has_socket_connection:
            return
        tasks = self._pages[client_id]
        if any(task.is_gone for task in tasks):
            tasks[:] = [task for task in tasks if not task.is_gone]
        for task in list(tasks):
            if task.is_due or number % task.ticks == 0:
                task.start()

    def _set_visible(self, client_id: str, visible: bool) -> None:
        if not visible:
            self._hidden.add(client_id)
            return
        self._hidden.discard(client_id)
        for task in self._pages.get(client_id, ()):
            task.is_due = True

    def _forget(self, client_id: str) -> None:
        self._pages.pop(client_id, None)
        self._hidden.discard(client_id)


class RefreshPace:
    """The factor by which ticks slow down, from the recent CPU use of this process."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.process_time()
        self._stretch = 1.0

    def stretch(self) -> float:
        passed = time.monotonic() - self._at
        if passed >= MEASURE_SECONDS:
            share = (time.process_time() - self._used) / passed
            # CPU use was measured at the current pace and is extrapolated to the usual one.
            self._stretch = min(MAX_SLOWDOWN, max(1.0, self._stretch * share / CPU_BUDGET))
            self._at, self._used = time.monotonic(), time.process_time()
        return self._stretch
