"""Keeps one part running: starts it, watches it, starts it again when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runspine.embedded.logs import open_log
from runspine.embedded.part import Part, get_health
from runspine.embedded.processes import identity_of, listens, tethered
from runspine.embedded.record import PartRecord

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
LIVED_WELL = 30.0
READY_POLL = 0.05
HEALTH_EVERY = 2.0
UNHEALTHY_AFTER = 3


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a part.

    starting, ready, ended, unhealthy, stopping, stopped; unrecorded when stack.json could not be
    written, abandoned when its keeper failed.
    """

    part: str
    what: str
    detail: str = ""


class Keeper:
    """One part and its process."""

    def __init__(self, part: Part, log: Path, tell: Callable[[Event], None]) -> None:
        self.part = part
        self.record = PartRecord(
            address=part.address,
            health=part.health,
            awaited=part.awaited,
            litter=list(map(str, part.litter)),
        )
        self.failed_starts = 0
        self._log = log
        self._tell = tell
        self._process: Process | None = None

    async def keep(self) -> None:
        """Never returns by itself. When cancelled, the process is left to `stop`."""
        wait = FIRST_WAIT
        while True:
            born = time.monotonic()
            trouble = await self._live()
            self.failed_starts += 1
            if time.monotonic() - born > LIVED_WELL:
                wait = FIRST_WAIT
            self._now("waiting", trouble=trouble)
            self._tell(Event(self.part.name, "ended", f"{trouble}; again in {wait:.1f} s"))
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            self.record.restarts += 1

    async def stop(self, hurry: asyncio.Event) -> None:
        """End the process: SIGTERM, and SIGKILL when its time is over."""
        if self._process is not None and self._process.returncode is None:
            self._tell(Event(self.part.name, "stopping"))
            await self._end(self._process, hurry)
        for path in self.part.litter:
            path.unlink(missing_ok=True)
        self._now("stopped")
        self._tell(Event(self.part.name, "stopped"))

    async def _live(self) -> str:
        """One life of the process; why it ended."""
        try:
            process = self._process = await self._spawn()
        except OSError as error:
            return f"cannot be started: {error}"
        self.record.pid, self.record.identity = process.pid, identity_of(process.pid)
        self.record.started_at = time.time()
        self._now("starting")
        self._tell(Event(self.part.name, "starting"))
        ended = asyncio.create_task(process.wait())
        watch = asyncio.create_task(self._watch(process.pid))
        try:
            await asyncio.wait({ended, watch}, return_when=asyncio.FIRST_COMPLETED)
            if process.returncode is not None:
                return how_it_ended(process.returncode)
            trouble = await watch
            self._tell(Event(self.part.name, "unhealthy", trouble))
            await self._end(process, asyncio.Event())
            return trouble
        finally:
            for task in (ended, watch):
                task.cancel()

    async def _spawn(self) -> Process:
        log = open_log(self._log)
        try:
            return await asyncio.create_subprocess_exec(
                *tethered(self.part.command, self.part.death_signal, self.part.niceness),
                env=self.part.variables,
                cwd=self.part.directory,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C in the terminal is the supervisor's to hear; it stops its parts in order.
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def _watch(self, pid: int) -> str:
        """Returns when the part is beyond help, with the reason."""
        deadline = time.monotonic() + self.part.ready_within
        hopeful = time.monotonic()
        while trouble := await self._missing(pid):
            now = time.monotonic()
            if now > deadline:
                return f"not ready within {self.part.ready_within:.0f} s: {trouble}"
            if not (self.part.hopeless and self.part.hopeless in trouble):
                hopeful = now
            elif now - hopeful > HEALTH_EVERY * UNHEALTHY_AFTER:
                return trouble
            await asyncio.sleep(READY_POLL)
        self.failed_starts = 0
        self._now("ready")
        self._tell(Event(self.part.name, "ready", self.record.where))
        if not self.part.restart_when_unhealthy:
            await asyncio.Event().wait()
        return await self._until_unhealthy()

    async def _missing(self, pid: int) -> str:
        """What keeps it from being ready: its own word, or that another answers in its place."""
        trouble = await self.part.ready()
        if trouble or not self.part.health:
            return trouble
        host, _, port = self.part.health.removeprefix("http://").partition("/")[0].rpartition(":")
        answers = await asyncio.to_thread(listens, pid, int(port))
        return "" if answers else f"another program answers at {host}:{port}"

    async def _until_unhealthy(self) -> str:
        failures = 0
        while True:
            await asyncio.sleep(HEALTH_EVERY)
            trouble = await asyncio.to_thread(get_health, self.part.health)
            failures = failures + 1 if trouble else 0
            if failures == UNHEALTHY_AFTER:
                return trouble

    async def _end(self, process: Process, hurry: asyncio.Event) -> None:
        ended = asyncio.create_task(process.wait())
        hurried = asyncio.create_task(hurry.wait())
        _signal(process, signal.SIGTERM)
        await asyncio.wait({ended, hurried}, timeout=self.part.grace, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if process.returncode is None:
            # It leads a group of its own, so this reaches what it may have started as well.
            os.killpg(process.pid, signal.SIGKILL)
        await ended

    def _now(self, state: str, trouble: str = "") -> None:
        self.record.state, self.record.trouble = state, trouble
        if state in ("waiting", "stopped"):
            self.record.pid, self.record.identity = 0, ""


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        return


def how_it_ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
