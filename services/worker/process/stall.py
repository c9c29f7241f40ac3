"""Marks a trainer that has stalled, without output, telemetry and CPU time for long; its limit ends it.

Its processes are described in the run's log, with the Python stacks that py-spy prints. A play session waits
for people, so it never stalls.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from runspine.clock import now_micros
from runspine.services.worker.facts.outcome import Stop, grace_of
from runspine.services.worker.process.reaper import descendants
from runspine.services.worker.process.stacks import describe_processes, stack_lines
from runspine.services.worker.process.usage import cpu_seconds
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.wire.v1.facts_pb2 import LIMIT
from runspine.wire.v1.spec_pb2 import PLAY, RunSpec

POLL_SECONDS = 5.0
# Of a trainer that is only marked.
MARK_POLL_SECONDS = 15.0
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
    """Watches one trainer. `mark_seconds` and the run's limit are 0 for never."""

    spec: RunSpec
    reaper: int
    telemetry: TelemetryPipeline
    redact: Redactor
    mark_seconds: float
    # 0 while it does something.
    stalled_since: int = 0

    async def watch(self, stop: Callable[[Stop], None]) -> None:
        """Return after the stop, when there is one."""
        limit = self.spec.limits.stall_seconds or math.inf
        marked_after = min(limit, self.mark_seconds or math.inf)
        if math.isinf(marked_after) or self.spec.mode == PLAY:
            return
        poll = min(MARK_POLL_SECONDS if math.isinf(limit) else POLL_SECONDS, marked_after / 4)
        lines, used = self.telemetry.lines_read, await self._used()
        active, marked = time.monotonic(), False
        while (idle := time.monotonic() - active) < limit:
            if idle >= marked_after and not marked:
                marked = True
                await self._describe(idle)
            await asyncio.sleep(poll)
            lines_now, used_now = self.telemetry.lines_read, await self._used()
            if lines_now != lines or used_now - used > IDLE_SHARE * poll or self.telemetry.is_held_up:
                active = time.monotonic()
                if marked:
                    self.telemetry.log_line("it goes on")
                    self.stalled_since = 0
                marked = False
            # Without the CPU time of processes that have ended.
            lines, used = lines_now, used_now
        if not marked:
            await self._describe(idle)
        stop(stalled(limit, grace_of(self.spec)))

    async def _describe(self, idle: float) -> None:
        self.stalled_since = now_micros() - int(idle * 1e6)
        self.telemetry.log_line(f"stalled: no output, no telemetry and no CPU time for {idle:.0f} s")
        for line in stack_lines(await asyncio.to_thread(describe_processes, self.reaper)):
            self.telemetry.log_line(self.redact(line))

    async def _used(self) -> float:
        pids = await asyncio.to_thread(descendants, self.reaper)
        return sum(used for used in map(cpu_seconds, pids) if used is not None)
