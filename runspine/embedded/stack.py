"""A stack as a context manager, for `runspine up`, `make run` and tests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from runspine.domain.defaults import DEFAULT_POOL
from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home
from runspine.embedded.logs import SupervisorLog, keep_rotating
from runspine.embedded.part import PartEvent
from runspine.embedded.plan import PARTS, StackOptions, plan
from runspine.embedded.ports import PortBook
from runspine.embedded.record import PartRecord, StackRecord, clear_stale
from runspine.embedded.supervisor import Supervisor
from runspine.tasks import cancel_and_wait

log = logging.getLogger("runspine.embedded")


class Stack:
    """A supervised stack: its addresses, credentials and processes."""

    def __init__(self, home: Home, credentials: Credentials, supervisor: Supervisor) -> None:
        self.home = home
        self.credentials = credentials
        self._supervisor = supervisor

    @property
    def record(self) -> StackRecord:
        return self._supervisor.record

    @property
    def addresses(self) -> dict[str, str]:
        return self.record.addresses

    @property
    def metrics(self) -> dict[str, str]:
        return self.record.metrics

    @property
    def parts(self) -> dict[str, PartRecord]:
        return self.record.parts

    @property
    def token(self) -> str:
        return self.credentials.token

    def pid(self, name: str) -> int:
        """The process of a part; 0 while it has none."""
        return self.parts[name].pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to a part and return its pid. A part that ends is restarted."""
        pid = self.pid(name)
        if pid == 0:
            raise ProcessLookupError(f"{name} does not run: {self.parts[name].trouble}")
        os.kill(pid, number)
        return pid

    async def kill_permanently(self, name: str) -> int:
        """Kill a part without a restart, and return its pid."""
        pid = self.kill(name)
        await self._supervisor.stop_part(name)
        return pid

    async def until_restarted(self, name: str, old_pid: int, timeout: float = 60.0) -> int:
        """Wait until another process of this part is ready; its pid."""
        deadline = time.monotonic() + timeout
        while self.parts[name].state != "ready" or self.pid(name) == old_pid:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} did not restart within {timeout} s: {self.parts[name]}")
            await asyncio.sleep(0.05)
        return self.pid(name)

    async def start(self) -> None:
        """Return when every part is ready. Raises StartFailedError."""
        await self._supervisor.start()

    @contextlib.asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        """Stop one part while the context is open; for tests of outages."""
        await self._supervisor.stop_part(name)
        try:
            yield
        finally:
            await self._supervisor.start_part(name)

    def hurry(self) -> None:
        """Stop waiting for parts that are being stopped."""
        self._supervisor.hurry.set()


@contextlib.asynccontextmanager
async def supervised(
    home: Home, options: StackOptions, on_event: Callable[[PartEvent], None]
) -> AsyncIterator[Stack]:
    """Lock a home and plan its stack, which the caller starts. Raises HomeUnusableError, HomeInUseError."""
    home.prepare()
    lock = home.lock()
    try:
        await asyncio.to_thread(clear_stale, home)
        credentials = load_credentials(home)
        events = SupervisorLog(home.logs / "supervisor.log")

        def log_and_report(event: PartEvent) -> None:
            events.write(event)
            on_event(event)

        ports = PortBook(home.ports_file, options.use_default_ports)
        try:
            parts = plan(home, options, credentials, ports)
            ports.save()
            supervisor = Supervisor(home, parts, ports, log_and_report, options.watchdog)
            rotating = asyncio.create_task(keep_rotating(home.logs), name="logs")
            try:
                yield Stack(home, credentials, supervisor)
            finally:
                await supervisor.stop()
                await cancel_and_wait(rotating)
        finally:
            ports.close()
            events.close()
    finally:
        os.close(lock)


@contextlib.asynccontextmanager
async def running_stack(
    home: Path | str,
    *,
    workers: int = 1,
    slots: int | None = None,
    pools: tuple[str, ...] = (DEFAULT_POOL,),
    only: set[str] | None = None,
    page: bool = False,
    quiet: bool = True,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Stack]:
    """A ready stack on free ports, stopped at the end of the context.

    `settings` are RUNSPINE_* variables for all its services; `page` starts the dashboard, too.
    """
    if only is None and not page:
        only = set(PARTS) - {"dashboard"}
    options = StackOptions(workers, slots, pools, only, use_default_ports=False, settings=settings or {})
    async with supervised(Home.at(home), options, _silent if quiet else _to_log) as stack:
        await stack.start()
        yield stack


def _silent(_: PartEvent) -> None:
    """Events are in supervisor.log."""


def _to_log(event: PartEvent) -> None:
    log.info("%s %s %s", event.part, event.what, event.detail)
