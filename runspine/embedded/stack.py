"""A whole stack for as long as a block of code: for `runspine up`, `make run` and tests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home
from runspine.embedded.journal import Journal
from runspine.embedded.keeper import Event
from runspine.embedded.plan import PARTS, Wish, plan
from runspine.embedded.ports import PortBook
from runspine.embedded.record import PartRecord, StackRecord, clear_stale
from runspine.embedded.supervisor import Supervisor

log = logging.getLogger("runspine.embedded")


class Stack:
    """What runs, where it is, and a hand on each process."""

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
        """Send a signal to a part, which will be started again if it ends; the pid that got it."""
        pid = self.pid(name)
        if pid == 0:
            raise ProcessLookupError(f"{name} does not run: {self.parts[name].trouble}")
        os.kill(pid, number)
        return pid

    async def kill_for_good(self, name: str) -> int:
        """Kill a part and leave it dead; the pid it had."""
        pid = self.kill(name)
        await self._supervisor.take_down(name)
        return pid

    async def until_restarted(self, name: str, old_pid: int, timeout: float = 60.0) -> int:
        """Wait until another process of this part is ready; its pid."""
        deadline = time.monotonic() + timeout
        while self.parts[name].state != "ready" or self.pid(name) == old_pid:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} did not come back within {timeout} s: {self.parts[name]}")
            await asyncio.sleep(0.05)
        return self.pid(name)

    async def start(self) -> None:
        """Return when every part is ready. Raises StartFailed."""
        await self._supervisor.start()

    @contextlib.asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        """One part is down for as long as the block takes; for tests of outages."""
        await self._supervisor.take_down(name)
        try:
            yield
        finally:
            await self._supervisor.bring_up(name)

    def hurry(self) -> None:
        """Stop waiting for parts that are being stopped."""
        self._supervisor.hurry.set()


@contextlib.asynccontextmanager
async def supervised(home: Home, wish: Wish, tell: Callable[[Event], None]) -> AsyncIterator[Stack]:
    """Take a home and plan its stack, to be started in the block. Raises HomeUnusable, HomeInUse."""
    home.prepare()
    lock = home.lock()
    try:
        await asyncio.to_thread(clear_stale, home)
        credentials = load_credentials(home)
        journal = Journal(home.logs / "supervisor.log")

        def tell_all(event: Event) -> None:
            journal.write(event)
            tell(event)

        ports = PortBook(home.ports_file, wish.use_default_ports)
        try:
            parts = plan(home, wish, credentials, ports)
            ports.save()
            supervisor = Supervisor(home, parts, ports, tell_all)
            try:
                yield Stack(home, credentials, supervisor)
            finally:
                await supervisor.stop()
        finally:
            ports.close()
            journal.close()
    finally:
        os.close(lock)


@contextlib.asynccontextmanager
async def running_stack(
    home: Path | str,
    *,
    workers: int = 1,
    slots: int | None = None,
    pools: tuple[str, ...] = ("default",),
    only: set[str] | None = None,
    page: bool = False,
    quiet: bool = True,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Stack]:
    """A stack on free ports, ready and supervised; stopped at the end of the block.

    `settings` are RUNSPINE_* variables for all its services; `page` starts the web page too.
    """
    if only is None and not page:
        only = set(PARTS) - {"dashboard"}
    wish = Wish(workers, slots, pools, only, use_default_ports=False, settings=settings or {})
    async with supervised(Home.at(home), wish, _silent if quiet else _to_log) as stack:
        await stack.start()
        yield stack


def _silent(_: Event) -> None:
    """The journal has it."""


def _to_log(event: Event) -> None:
    log.info("%s %s %s", event.part, event.what, event.detail)
