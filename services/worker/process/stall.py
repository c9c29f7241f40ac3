"""Ends a trainer that has stalled: no output, no telemetry and no CPU time for as long as its run allows.

Before that its processes are described in the run's log, with the Python stacks that py-spy prints where it
is installed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from runspine.services.worker.facts.outcome import Stop, grace_of
from runspine.services.worker.process.reaper import descendants
from runspine.services.worker.process.stacks import describe_processes, stack_lines
from runspine.services.worker.process.usage import cpu_seconds
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.wire.v1.facts_pb2 import LIMIT
from runspine.wire.v1.spec_pb2 import RunSpec

POLL_SECONDS = 5.0
# Of one core: what an idle interpreter with its threads uses.
IDLE_SHARE = 0.02


def stalled(seconds: float, grace: float) -> Stop:
    """Stop for limits.stall_seconds."""
    return Stop(
        LIMIT,
        f"stalled: no output, no telemetry and no CPU time for {seconds:g} s (limits.stall_seconds). "
        "Its processes are described at the end of its log",
        grace,
    )


@dataclass(slots=True)
class StallGuard:
    """Watches one trainer; never when the limit is 0."""

    spec: RunSpec
    reaper: int
    telemetry: TelemetryPipeline
    redact: Redactor

    async def watch(self, stop: Callable[[Stop], None]) -> None:
        """Return after the stop, when there is one."""
        seconds = self.spec.limits.stall_seconds
        if not seconds:
            return
        poll = min(POLL_SECONDS, seconds / 4)
        lines, used, active = self.telemetry.lines_read, await self._used(), time.monotonic()
        while time.monotonic() - active < seconds:
            await asyncio.sleep(poll)
            lines_now, used_now = self.telemetry.lines_read, await self._used()
            if lines_now != lines or used_now - used > IDLE_SHARE * poll or self.telemetry.is_held_up:
                active = time.monotonic()
            # Without the CPU time of processes that have ended.
            lines, used = lines_now, used_now
        for line in stack_lines(await asyncio.to_thread(describe_processes, self.reaper)):
            self.telemetry.log_line(self.redact(line))
        stop(stalled(seconds, grace_of(self.spec)))

    async def _used(self) -> float:
        pids = await asyncio.to_thread(descendants, self.reaper)
        return sum(used for used in map(cpu_seconds, pids) if used is not None)
