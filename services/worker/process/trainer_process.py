"""One trainer process, started and controlled through its reaper."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import uvloop

from runspine.services.worker.process import reaper
from runspine.services.worker.process.cgroup import Hits, hits, make_cgroup, remove_cgroup, set_limits
from runspine.services.worker.process.limits import file_size_limit
from runspine.services.worker.process.system_calls import filter_program
from runspine.wire.v1.spec_pb2 import Limits

CHUNK = 256 << 10
# The name is older than the module; a restarted worker finds the locks of earlier versions by it.
REAPER_LOCK = "keeper.lock"
PIPE_BYTES = 1 << 20
# Its place among the pipes.
TELEMETRY = 2
# How long a reaper may take beyond the grace before it is killed.
STUCK_SECONDS = 15.0
_own_children: set[int] = set()
_adopting = False


class NotStartedError(Exception):
    """The operating system refused to start the program."""


@dataclass(frozen=True, slots=True)
class TrainerExit:
    """How the trainer's main process ended."""

    exit_code: int = 0
    signal: int = 0
    # True when the reaper died without reporting the exit.
    unknown: bool = False
    # Processes that could not be killed.
    left: tuple[int, ...] = ()


@dataclass(slots=True)
class TrainerProcess:
    """Started by `start`; `stdout` and `stderr` end when the last of its processes has ended."""

    process: subprocess.Popen[bytes]
    life: int
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    telemetry: asyncio.StreamReader
    status: asyncio.StreamReader
    cgroup: Path | None
    # Names of the limits that the cgroup enforces.
    enforced: frozenset[str] = frozenset()
    transports: list[asyncio.ReadTransport] = field(default_factory=list)
    exit: TrainerExit | None = None
    # Counters of the cgroup when the trainer ended.
    hits: Hits = field(default_factory=Hits)

    @classmethod
    async def start(
        cls,
        name: str,
        command: list[str],
        directory: Path,
        environment: dict[str, str],
        lock: Path,
        limits: Limits | None = None,
        *,
        sandboxed: bool = False,
        plan: str = "",
    ) -> Self:
        """Spawn reaper and trainer. Raises NotStartedError with the system's reason.

        With `plan` the command is one that reads it and joins a trainer (`sandbox_join`).
        """
        limits = limits or Limits()
        cgroup = make_cgroup(name)
        enforced = set_limits(cgroup, limits) if cgroup else frozenset[str]()
        process, life, pipes, telemetry_end = _start_reaper(lock, cgroup)
        pipe = os.fstat(pipes[TELEMETRY])
        opened = [await _reader(descriptor) for descriptor in pipes]
        (stdout, stderr, telemetry, status), transports = zip(*opened, strict=True)
        trainer = cls(process, life, stdout, stderr, telemetry, status, cgroup, enforced, list(transports))
        launch = {
            "command": command,
            "directory": str(directory),
            "environment": {
                **environment,
                "RUNSPINE_TELEMETRY_FD": str(telemetry_end),
                # By which a process knows whether it inherited the descriptor, or another under its number.
                "RUNSPINE_TELEMETRY_PIPE": f"{pipe.st_dev}:{pipe.st_ino}",
            },
            "cgroup": str(cgroup) if cgroup else "",
            "file_size": file_size_limit(limits),
            "sandboxed": sandboxed,
            "plan": plan,
            "filter": filter_program(os.uname().machine).hex() if sandboxed else "",
        }
        try:
            # Over the pipe and not as arguments: any user of the machine can read those.
            await asyncio.to_thread(_write_all, trainer.life, json.dumps(launch).encode() + b"\n")
            status_line = await trainer._read_status()
        except asyncio.CancelledError:
            # The end of the life pipe makes the reaper kill what it has started.
            trainer.close()
            raise
        if status_line is None or "not_started" in status_line:
            await trainer._reap()
            trainer.close()
            raise NotStartedError(
                status_line["not_started"] if status_line else "its reaper ended without a report"
            )
        return trainer

    def term(self, grace: float) -> None:
        """Send SIGTERM; the trainer is killed after the grace."""
        self._command(f"term {grace}\n")

    def kill(self) -> None:
        """Kill the trainer and its descendants now."""
        self._command("kill\n")

    async def wait(self) -> TrainerExit:
        """Wait until the trainer and all its descendants are gone. May be called again."""
        if self.exit is None:
            self.exit = _exit_from(await self._read_status())
            self.hits = await asyncio.to_thread(hits, self.cgroup)
        await self._reap()
        return self.exit

    def kill_reaper(self) -> None:
        """For a reaper that is stuck; the trainer dies by its parent-death signal."""
        self.process.kill()

    def close(self) -> None:
        """Close the pipes, read or not."""
        self._end_life()
        for transport in self.transports:
            transport.close()

    async def _reap(self) -> None:
        """Wait for the reaper, and kill what it left behind if it was killed."""
        self._end_life()
        await asyncio.to_thread(self.process.wait)
        _own_children.discard(self.process.pid)
        await asyncio.to_thread(_kill_each, orphans())
        if self.cgroup:
            await asyncio.to_thread(remove_cgroup, self.cgroup)

    def _end_life(self) -> None:
        if self.life >= 0:
            os.close(self.life)
            self.life = -1

    async def _read_status(self) -> dict[str, Any] | None:
        line = await self.status.readline()
        if not line.endswith(b"\n"):
            return None
        status: dict[str, Any] = json.loads(line)
        return status

    def _command(self, line: str) -> None:
        if self.life >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.life, line.encode())


def _start_reaper(lock: Path, cgroup: Path | None) -> tuple[subprocess.Popen[bytes], int, list[int], int]:
    """The reaper, the write end of its life pipe, the read ends of stdout, stderr, telemetry and status,
    and the write end of telemetry."""
    # The reaper holds the lock until it ends, so that a restarted worker can wait for that.
    lock.write_text(str(cgroup or ""))
    holding = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    life_end, life = os.pipe()
    pipes = [os.pipe() for _ in range(4)]
    stdout, stderr, telemetry, status = (write for _, write in pipes)
    for end in (stdout, telemetry):
        # A larger pipe makes a trainer wait less often. The system may refuse.
        with contextlib.suppress(OSError):
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        fcntl.flock(holding, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # From the main thread: the parent-death signal is bound to the thread that forks.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(status), str(holding), str(telemetry)],
            stdin=life_end,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(status, holding, telemetry),
            start_new_session=True,
            env={},
        )
    except OSError as error:
        for descriptor in (life, *(read for read, _ in pipes)):
            os.close(descriptor)
        raise NotStartedError(f"its reaper could not be started: {error}") from error
    finally:
        for descriptor in (life_end, stdout, stderr, telemetry, status, holding):
            os.close(descriptor)
    _own_children.add(process.pid)
    return process, life, [read for read, _ in pipes], telemetry


def _exit_from(status: dict[str, Any] | None) -> TrainerExit:
    if status is None:
        return TrainerExit(unknown=True)
    return TrainerExit(status["exit_code"], status["signal"], left=tuple(status["left"]))


def adopt_orphans() -> None:
    """Make this process the subreaper that inherits what a killed reaper leaves behind."""
    global _adopting  # noqa: PLW0603 - a process either is a subreaper or is not
    _adopting = True
    reaper.prctl(reaper.PR_SET_CHILD_SUBREAPER, 1)


def orphans() -> list[int]:
    """Children that this process did not start itself but inherited from a killed reaper.

    Those are never in the worker's own session, because a reaper starts a new one; processes that a runner's
    preflight starts in a thread are.
    """
    found: list[int] = []
    if not _adopting:
        return found
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
            own = int(name) in _own_children or os.getsid(int(name)) == os.getsid(0)
            if parent == os.getpid() and not own:
                found.append(int(name))
    return found


def _kill_each(pids: list[int]) -> None:
    for pid in pids:
        reaper.send(pid, signal.SIGSTOP)
        reaper.kill_all(pid, "")
        reaper.send(pid, signal.SIGKILL)
    deadline = time.monotonic() + reaper.SWEEP_SECONDS
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.005)


async def _reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader, loop = asyncio.StreamReader(limit=CHUNK), asyncio.get_running_loop()
    # uvloop closes the descriptor and then the file as well. In between, the number may have become that
    # of a file which another thread has just opened: that one would be closed under its feet.
    file = os.fdopen(descriptor, "rb", 0, closefd=not isinstance(loop, uvloop.Loop))
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader, transport


def _write_all(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(descriptor, data) :]
