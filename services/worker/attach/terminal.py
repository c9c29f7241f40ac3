"""A program next to a trainer on a terminal of its own: in its sandbox, with its environment and limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import termios
from collections.abc import Callable
from pathlib import Path

from runspine.instrument.startup_variables import MODE
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.process import sandbox_join
from runspine.services.worker.process.reaper import PLAN, descendants
from runspine.services.worker.process.sandbox_launcher import NOT_STARTED
from runspine.services.worker.process.system_calls import filter_program
from runspine.services.worker.process.trainer_process import NotStartedError, TrainerExit, TrainerProcess
from runspine.wire.v1.processes_pb2 import AttachBegin, TerminalSize

CHUNK = 16 << 10
# Keys that the program has not read yet.
MAX_INPUT_BYTES = 1 << 20
MAX_SIZE = 1_000
SHELLS = ("/bin/bash", "/bin/sh")
# What a program started by hand must not do: record into the run, or answer in place of its trainer.
NOT_PASSED = (
    "RUNSPINE_TELEMETRY_FD",
    "RUNSPINE_TELEMETRY_SOCKET",
    "RUNSPINE_TELEMETRY_PIPE",
    "RUNSPINE_VIEW",
)


class Terminal:
    """Opened by `start`. `read` and `write` do not block."""

    def __init__(self, process: TrainerProcess, master: int, slave: int, lock: Path) -> None:
        self._process = process
        self._master = master
        # Kept open: a terminal that nobody holds cannot be read.
        self._slave = slave
        self._lock = lock
        self._input = bytearray()
        self._on_lost: Callable[[], None] = lambda: None
        # Of the program and all that it started.
        self.exit = asyncio.create_task(process.wait())

    @classmethod
    async def start(cls, attempt: Attempt, begin: AttachBegin, lock: Path) -> Terminal:
        """Raises NotStartedError with the reason."""
        trainer = attempt.trainer
        if trainer is None or trainer.exit is not None:
            raise NotStartedError("its trainer does not run now")
        prepared = attempt.claim.prepared
        inside = await asyncio.to_thread(_process_inside, trainer.process.pid) if attempt.sandboxed else 0
        if attempt.sandboxed and not inside:
            raise NotStartedError("its trainer is just starting, or ending: try again")
        master, slave = os.openpty()
        try:
            os.set_blocking(master, False)
            resize(slave, begin.size)
            plan = {
                "terminal": os.ttyname(slave),
                "process": inside,
                "started": sandbox_join.start_time(inside) if inside else 0,
                "directory": str(prepared.directory),
                "environment": _environment(attempt, begin.term),
                "filter": filter_program(os.uname().machine).hex() if inside else "",
                "processes": attempt.limits.processes,
            }
            command = list(begin.command) or [_shell()]
            lock.parent.mkdir(mode=0o700, exist_ok=True)
            process = await TrainerProcess.start(
                f"{attempt.claim.entry.name}-{lock.stem}",
                [sys.executable, "-I", "-m", sandbox_join.__name__, PLAN, *command],
                Path("/"),
                {"PATH": os.environ.get("PATH", os.defpath)},
                lock,
                attempt.limits,
                plan=json.dumps(plan),
            )
        except BaseException as error:
            os.close(master)
            os.close(slave)
            if isinstance(error, OSError):
                raise NotStartedError(f"there is no terminal for it: {error}") from error
            raise
        return cls(process, master, slave, lock)

    def listen(self, ready: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `ready` when there is output, until `unlisten`; `lost` when too many keys wait."""
        self._on_lost = lost
        asyncio.get_running_loop().add_reader(self._master, ready)

    def unlisten(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)

    def read(self) -> bytes:
        """What the program has written; empty when that is all for now."""
        try:
            return os.read(self._master, CHUNK)
        except OSError:  # nothing yet, or nobody has the terminal any more
            return b""

    def write(self, data: bytes) -> None:
        """Keys, in the order in which they came."""
        self._input += data
        if len(self._input) > MAX_INPUT_BYTES:
            self._on_lost()
        else:
            self._write_waiting()

    def resize(self, size: TerminalSize) -> None:
        resize(self._slave, size)

    async def problem(self, ended: TrainerExit) -> str:
        """Why the program was not started; empty when it was."""
        if ended.exit_code != NOT_STARTED:
            return ""
        return (await self._process.stderr.read(CHUNK)).decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End the program and what it started."""
        asyncio.get_running_loop().remove_reader(self._master)
        asyncio.get_running_loop().remove_writer(self._master)
        self._process.kill()
        try:
            await asyncio.shield(self.exit)
        finally:
            self._process.close()
            os.close(self._master)
            os.close(self._slave)
            self._lock.unlink(missing_ok=True)

    def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            while self._input:
                del self._input[: os.write(self._master, self._input[:CHUNK])]
        if self._input:
            loop.add_writer(self._master, self._write_waiting)
        else:
            loop.remove_writer(self._master)


def resize(descriptor: int, size: TerminalSize) -> None:
    if 0 < size.rows <= MAX_SIZE and 0 < size.columns <= MAX_SIZE:
        termios.tcsetwinsize(descriptor, (size.rows, size.columns))


def _shell() -> str:
    return next((shell for shell in SHELLS if os.path.exists(shell)), SHELLS[-1])


def _environment(attempt: Attempt, term: str) -> dict[str, str]:
    given = {
        name: value
        for name, value in attempt.claim.prepared.environment.items()
        if name not in NOT_PASSED and name != MODE
    }
    program = attempt.claim.prepared.command[0]
    if os.path.isabs(program) and os.path.basename(program).startswith("python"):
        # `python` is the trainer's.
        given["PATH"] = f"{os.path.dirname(program)}:{given.get('PATH', os.defpath)}"
    if attempt.sandboxed:
        given["TMPDIR"] = "/tmp"
    return {**given, "TERM": term if term.isprintable() and 0 < len(term) < 64 else "dumb"}


def _process_inside(root: int) -> int:
    """A process of the trainer in its sandbox, not the first one, whose user namespace may be another."""
    own = os.readlink("/proc/self/ns/pid")
    for pid in sorted(descendants(root)):
        with contextlib.suppress(OSError, StopIteration, ValueError):
            with open(f"/proc/{pid}/status") as file:
                numbers = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
            if os.readlink(f"/proc/{pid}/ns/pid") != own and numbers[-1] != "1":
                return pid
    return 0
