"""Starts the parts in order, keeps them running, stops them in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence

from runspine.embedded.home import Home, HomeUnusable
from runspine.embedded.keeper import Event, Keeper
from runspine.embedded.logs import last_words
from runspine.embedded.part import Part
from runspine.embedded.ports import PortBook
from runspine.embedded.processes import identity_of
from runspine.embedded.record import StackRecord
from runspine.errors import RunspineError

MOST_FAILED_STARTS = 3


class StartFailed(RunspineError):
    """A part did not come up."""


class Supervisor:
    """All keepers of a stack, and the record of what they keep."""

    def __init__(
        self, home: Home, parts: Sequence[Part], ports: PortBook, tell: Callable[[Event], None]
    ) -> None:
        self._home = home
        self._ports = ports
        self._tell = tell
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.keepers = {p.name: Keeper(p, home.logs / f"{p.name}.log", self._heard) for p in parts}
        self.hurry = asyncio.Event()
        self.record = StackRecord(
            pid=os.getpid(),
            identity=identity_of(os.getpid()),
            addresses={part.name: part.address for part in parts if part.address},
            metrics={part.name: part.metrics for part in parts if part.metrics},
            parts={name: keeper.record for name, keeper in self.keepers.items()},
        )

    async def start(self) -> None:
        """Return when every part is ready. Raises StartFailed."""
        self.record.write(self._home)
        for name, keeper in self.keepers.items():
            await self.bring_up(name, wait=keeper.part.awaited)
        self._ports.release_all()
        self.record.ready = True
        self.record.write(self._home)

    async def bring_up(self, name: str, *, wait: bool = True) -> None:
        """Start one part and return when it is ready, or at once."""
        keeper = self.keepers[name]
        self._ports.release(keeper.part.ports)
        task = self._tasks[name] = asyncio.create_task(keeper.keep(), name=f"keeper-{name}")
        task.add_done_callback(functools.partial(self._abandoned, name))
        if wait:
            await self._first_ready(keeper)

    async def take_down(self, name: str) -> None:
        """Stop one part; it stays down until it is brought up."""
        await self._stop(name)

    async def stop(self) -> None:
        """Leave nothing: workers first, the stores last."""
        self._ports.release_all()
        for stage in self._stages():
            await asyncio.gather(*(self._stop(name) for name in stage))
        self._home.stack_file.unlink(missing_ok=True)

    async def _stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is None:
            return
        task.cancel()
        # A keeper that crashed is our own mistake; it shows after its process has been stopped.
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        finally:
            await self.keepers[name].stop(self.hurry)

    def _stages(self) -> list[list[str]]:
        first = [name for name in self.keepers if name.startswith(("worker", "dashboard"))]
        others = [[name] for name in self.keepers if name not in first]
        return [first, *reversed(others)]

    async def _first_ready(self, keeper: Keeper) -> None:
        deadline = time.monotonic() + keeper.part.ready_within
        task = self._tasks[keeper.part.name]
        while keeper.record.state != "ready":
            if task.done():
                await task
            if keeper.failed_starts >= MOST_FAILED_STARTS or time.monotonic() > deadline:
                log = self._home.logs / f"{keeper.part.name}.log"
                why = keeper.record.trouble or "it does not get ready"
                raise StartFailed(f"{keeper.part.name}: {why}\n{last_words(log)}\nmore in {log}")
            await asyncio.sleep(0.02)

    def _abandoned(self, name: str, task: asyncio.Task[None]) -> None:
        """A keeper ended by a mistake of ours: its part runs on, but nobody keeps it. Say so."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.keepers[name].record.trouble = f"no longer supervised: {error!r}"
            self._heard(Event(name, "abandoned", repr(error)))

    def _heard(self, event: Event) -> None:
        try:
            self.record.write(self._home)
        except HomeUnusable as error:
            # A full disk must not end the supervision that may help against it.
            self._tell(Event(event.part, "unrecorded", str(error)))
        self._tell(event)
