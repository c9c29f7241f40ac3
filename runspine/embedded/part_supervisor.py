"""Supervision of one part: start, readiness, health, restart and stop of its process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from pathlib import Path

from runspine.embedded.logs import open_log
from runspine.embedded.part import PartEvent, StackPart, get_health
from runspine.embedded.processes import identity_of, listens, tethered
from runspine.embedded.record import PartRecord

RESTART_SECONDS, MAX_RESTART_SECONDS = 0.2, 10.0
STABLE_SECONDS = 30.0
READY_POLL_SECONDS = 0.05
HEALTH_SECONDS = 2.0
MAX_UNHEALTHY = 3


class PartSupervisor:
    """Runs the process of one part, and restarts it when it ends."""

    def __init__(self, part: StackPart, log: Path, on_event: Callable[[PartEvent], None]) -> None:
        self.part = part
        self.record = PartRecord(
            address=part.address,
            health=part.health,
            awaited=part.awaited,
            litter=list(map(str, part.litter)),
        )
        self.failed_starts = 0
        self._log = log
        self._on_event = on_event
        self._process: Process | None = None

    async def run(self) -> None:
        """Never returns. When it is cancelled, `stop` ends the process."""
        wait = RESTART_SECONDS
        while True:
            started = time.monotonic()
            trouble = await self._run_once()
            self.failed_starts += 1
            if time.monotonic() - started > STABLE_SECONDS:
                wait = RESTART_SECONDS
            self._set_state("waiting", trouble=trouble)
            self._on_event(PartEvent(self.part.name, "ended", f"{trouble}; again in {wait:.1f} s"))
            await asyncio.sleep(wait)
            wait = min(wait * 2, MAX_RESTART_SECONDS)
            self.record.restarts += 1

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop the process: SIGTERM, then SIGKILL after its grace period."""
        if self._process is not None and self._process.returncode is None:
            self._on_event(PartEvent(self.part.name, "stopping"))
            await self._end(self._process, hurry)
        for path in self.part.litter:
            path.unlink(missing_ok=True)
        self._set_state("stopped")
        self._on_event(PartEvent(self.part.name, "stopped"))

    async def _run_once(self) -> str:
        """Start the process and wait for its end; why it ended."""
        try:
            process = self._process = await self._spawn()
        except OSError as error:
            return f"cannot be started: {error}"
        self.record.pid, self.record.identity = process.pid, identity_of(process.pid)
        self.record.started_at = time.time()
        self._set_state("starting")
        self._on_event(PartEvent(self.part.name, "starting"))
        ended = asyncio.create_task(process.wait())
        watch = asyncio.create_task(self._watch(process.pid))
        try:
            await asyncio.wait({ended, watch}, return_when=asyncio.FIRST_COMPLETED)
            if process.returncode is not None:
                return describe_exit(process.returncode)
            trouble = await watch
            self._on_event(PartEvent(self.part.name, "unhealthy", trouble))
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
                # Ctrl-C in the terminal reaches only the supervisor, which stops its parts in order.
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def _watch(self, pid: int) -> str:
        """Return when the part needs a restart, with the reason."""
        deadline = time.monotonic() + self.part.ready_within
        last_other = time.monotonic()
        while trouble := await self._not_ready(pid):
            now = time.monotonic()
            if now > deadline:
                return f"not ready within {self.part.ready_within:.0f} s: {trouble}"
            if not (self.part.restart_on and self.part.restart_on in trouble):
                last_other = now
            elif now - last_other > HEALTH_SECONDS * MAX_UNHEALTHY:
                return trouble
            await asyncio.sleep(READY_POLL_SECONDS)
        self.failed_starts = 0
        self._set_state("ready")
        self._on_event(PartEvent(self.part.name, "ready", self.record.where))
        if not self.part.restart_when_unhealthy:
            await asyncio.Event().wait()
        return await self._until_unhealthy()

    async def _not_ready(self, pid: int) -> str:
        """Why the part is not ready, which may be another program on its port; empty when it is ready."""
        trouble = await self.part.ready()
        if trouble or not self.part.health:
            return trouble
        host, _, port = self.part.health.removeprefix("http://").partition("/")[0].rpartition(":")
        answers = await asyncio.to_thread(listens, pid, int(port))
        return "" if answers else f"another program answers at {host}:{port}"

    async def _until_unhealthy(self) -> str:
        failures = 0
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            trouble = await asyncio.to_thread(get_health, self.part.health)
            failures = failures + 1 if trouble else 0
            if failures == MAX_UNHEALTHY:
                return trouble

    async def _end(self, process: Process, hurry: asyncio.Event) -> None:
        ended = asyncio.create_task(process.wait())
        hurried = asyncio.create_task(hurry.wait())
        _signal(process, signal.SIGTERM)
        await asyncio.wait({ended, hurried}, timeout=self.part.grace, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if process.returncode is None:
            # It leads its own process group, so this reaches its children as well.
            os.killpg(process.pid, signal.SIGKILL)
        await ended

    def _set_state(self, state: str, trouble: str = "") -> None:
        self.record.state, self.record.trouble = state, trouble
        if state in ("waiting", "stopped"):
            self.record.pid, self.record.identity = 0, ""


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        return


def describe_exit(code: int) -> str:
    """An exit code in words."""
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
