"""Processes of the deployment, each started again whenever it ends, as Kubernetes does it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Kubernetes waits 10 s before the second restart; here a fault would otherwise be an outage of the harness.
RESTART_SECONDS = 1.0
STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Exit:
    """An end of a process that nobody asked for."""

    member: str
    at: float
    code: int
    last_lines: str


@dataclass
class Member:
    """One process on its host, and what it is started with."""

    name: str
    prefix: Sequence[str]
    command: Sequence[str]
    variables: Mapping[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    # Ends that were not ours: crashes.
    exits: list[Exit] = field(default_factory=list)
    _expected: bool = False
    _supervising: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The living process; None between an end and the next start."""
        return self.process.pid if self.process and self.process.returncode is None else None

    def start(self) -> None:
        self._supervising = asyncio.create_task(self._supervise())

    async def stop(self) -> None:
        """SIGTERM, and no new start."""
        if self._supervising:
            self._supervising.cancel()
        if self.process is None or self.process.returncode is not None:
            return
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    def kill(self) -> bool:
        self._expected = True
        return self.send(signal.SIGKILL)

    def terminate(self) -> bool:
        """A rolling update: it ends by itself and is started again."""
        self._expected = True
        return self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> bool:
        if self.process is None or self.process.returncode is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return True

    async def _supervise(self) -> None:
        while True:
            await self._run_once()
            await asyncio.sleep(RESTART_SECONDS)

    async def restart_with(self, command: Sequence[str]) -> None:
        """A rolling update: SIGTERM, and the next start is another release."""
        self.command = command
        self.terminate()

    async def _run_once(self) -> None:
        self._expected = False
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self.prefix,
                *self.command,
                env={**_needed(), **self.variables},
                cwd=self.log.parent,
                stdout=output,
                stderr=output,
            )
        code = await self.process.wait()
        if not self._expected:
            self.exits.append(Exit(self.name, time.monotonic(), code, self._tail()))

    def _tail(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - 4000))
            return file.read().decode(errors="replace")


def _needed() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
