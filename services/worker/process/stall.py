"""Ends a trainer that has stalled: no output, no telemetry and no CPU time for as long as its run allows.

Before that its processes are described in the run's log, with the Python stacks that py-spy prints where it
is installed.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runspine.services.worker.facts.outcome import Stop, grace_of
from runspine.services.worker.process.reaper import descendants
from runspine.services.worker.process.usage import cpu_seconds
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.wire.v1.facts_pb2 import LIMIT
from runspine.wire.v1.spec_pb2 import RunSpec

POLL_SECONDS = 5.0
# Of one core: what an idle interpreter with its threads uses.
IDLE_SHARE = 0.02
MAX_PROCESSES = 32
MAX_COMMAND_LENGTH = 200
MAX_STACK_LINES = 200
DUMP_SECONDS = 20.0
PROGRAM = "py-spy"


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
        for line in await asyncio.to_thread(describe_processes, self.reaper):
            self.telemetry.log_line(self.redact(line))
        stop(stalled(seconds, grace_of(self.spec)))

    async def _used(self) -> float:
        pids = await asyncio.to_thread(descendants, self.reaper)
        return sum(used for used in map(cpu_seconds, pids) if used is not None)


def describe_processes(reaper: int) -> list[str]:
    """Lines about each process of a trainer. Blocks."""
    pids = sorted(descendants(reaper))
    lines = [line for pid in pids[:MAX_PROCESSES] for line in _describe(pid)]
    if len(pids) > MAX_PROCESSES:
        lines.append(f"{len(pids) - MAX_PROCESSES} more processes are left out")
    return lines


def _describe(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}")
    try:
        words = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ")
        state = folder.joinpath("stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return []
    command = words.decode("utf-8", "replace")[:MAX_COMMAND_LENGTH].strip()
    head = f"process {pid} ({command}), state {state}"
    return [head + _waits_in(folder), *_stack(pid)]


def _waits_in(folder: Path) -> str:
    try:
        name = folder.joinpath("wchan").read_text()
    except OSError:
        return ""
    return f", waits in {name}" if name.strip("0") else ""


def _stack(pid: int) -> list[str]:
    """Python stacks of a process; nothing when it has none, or py-spy is missing or may not read it."""
    program = shutil.which(PROGRAM)
    if program is None:
        return []
    command = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DUMP_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [f"  {line}" for line in done.stdout.splitlines()[:MAX_STACK_LINES]] if not done.returncode else []
