"""Supervision of all parts: they start in order, are restarted, and stop in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence

from runspine.embedded.home import Home, HomeUnusableError
from runspine.embedded.logs import log_tail
from runspine.embedded.part import PartEvent, StackPart
from runspine.embedded.part_supervisor import PartSupervisor
from runspine.embedded.ports import PortBook
from runspine.embedded.processes import identity_of
from runspine.embedded.record import StackRecord
from runspine.errors import RunspineError

MAX_FAILED_STARTS = 3


class StartFailedError(RunspineError):
    """A part did not become ready."""


class Supervisor:
    """The supervisors of all parts, and the record of the stack."""

    def __init__(
        self,
        home: Home,
        parts: Sequence[StackPart],
        ports: PortBook,
        on_event: Callable[[PartEvent], None],
        watchdog: int = 0,
    ) -> None:
        self._home = home
        self._ports = ports
        self._on_event = on_event
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.supervisors = {
            p.name: PartSupervisor(p, home.logs / f"{p.name}.log", self._record_event) for p in parts
        }
        self.hurry = asyncio.Event()
        self.record = StackRecord(
            pid=os.getpid(),
            identity=identity_of(os.getpid()),
            watchdog=watchdog,
            watchdog_identity=identity_of(watchdog) if watchdog else "",
            addresses={part.name: part.address for part in parts if part.address},
            metrics={part.name: part.metrics for part in parts if part.metrics},
            parts={name: part_supervisor.record for name, part_supervisor in self.supervisors.items()},
        )

    async def start(self) -> None:
        """Return when every part is ready. Raises StartFailedError."""
        self.record.write(self._home)
        for name, part_supervisor in self.supervisors.items():
            await self.start_part(name, wait=part_supervisor.part.awaited)
        self._ports.release_all()
        self.record.ready = True
        self.record.write(self._home)

    async def start_part(self, name: str, *, wait: bool = True) -> None:
        """Start one part and return when it is ready, or at once."""
        part_supervisor = self.supervisors[name]
        self._ports.release(part_supervisor.part.ports)
        task = self._tasks[name] = asyncio.create_task(part_supervisor.run(), name=f"supervisor-{name}")
        task.add_done_callback(functools.partial(self._abandoned, name))
        if wait:
            await self._first_ready(part_supervisor)

    async def stop_part(self, name: str) -> None:
        """Stop one part without a restart."""
        await self._stop(name)

    async def stop(self) -> None:
        """Stop all parts: workers first, the stores last."""
        self._ports.release_all()
        for stage in self._stages():
            await asyncio.gather(*(self._stop(name) for name in stage))
        self._home.stack_file.unlink(missing_ok=True)

    async def _stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is None:
            return
        task.cancel()
        # An error of the supervision is raised after the process has been stopped.
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        finally:
            await self.supervisors[name].stop(self.hurry)

    def _stages(self) -> list[list[str]]:
        first = [name for name in self.supervisors if name.startswith(("worker", "dashboard"))]
        others = [[name] for name in self.supervisors if name not in first]
        return [first, *reversed(others)]

    async def _first_ready(self, part_supervisor: PartSupervisor) -> None:
        deadline = time.monotonic() + part_supervisor.part.ready_within
        task = self._tasks[part_supervisor.part.name]
        while part_supervisor.record.state != "ready":
            if task.done():
                await task
            if part_supervisor.failed_starts >= MAX_FAILED_STARTS or time.monotonic() > deadline:
                log = self._home.logs / f"{part_supervisor.part.name}.log"
                why = part_supervisor.record.trouble or "it does not become ready"
                raise StartFailedError(f"{part_supervisor.part.name}: {why}\n{log_tail(log)}\nmore in {log}")
            await asyncio.sleep(0.02)

    def _abandoned(self, name: str, task: asyncio.Task[None]) -> None:
        """Report that the supervision of a part failed: its process runs, and would not be restarted."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.supervisors[name].record.trouble = f"no longer supervised: {error!r}"
            self._record_event(PartEvent(name, "abandoned", repr(error)))

    def _record_event(self, event: PartEvent) -> None:
        try:
            self.record.write(self._home)
        except HomeUnusableError as error:
            # A full disk must not end the supervision.
            self._on_event(PartEvent(event.part, "unrecorded", str(error)))
        self._on_event(event)
