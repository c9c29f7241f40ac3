"""One trainer process as the worker sees it, through its keeper."""

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

from runspine.wire.v1.spec_pb2 import Limits
from services.worker import keeper
from services.worker.cgroup import Hits, hits, make_cgroup, remove_cgroup, set_limits
from services.worker.limits import file_size_limit

CHUNK = 1 << 16
PIPE_BYTES = 1 << 20
# How long a keeper may take beyond the grace before it is taken for stuck.
STUCK_SECONDS = 15.0
_own_children: set[int] = set()
_adopting = False


class NotStarted(Exception):
    """The operating system refused to start the program."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the trainer's main process ended."""

    exit_code: int = 0
    signal: int = 0
    # True when the keeper died and can tell nothing.
    unknown: bool = False
    # Processes that could not be killed.
    left: tuple[int, ...] = ()


@dataclass(slots=True)
class Trainer:
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
    exit: Exit | None = None
    # What the cgroup had seen when the trainer ended.
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
        walled: bool = False,
    ) -> Self:
        """Spawn keeper and trainer. Raises NotStarted with the system's reason."""
        limits = limits or Limits()
        cgroup = make_cgroup(name)
        enforced = set_limits(cgroup, limits) if cgroup else frozenset[str]()
        process, life, pipes, telemetry_end = _start_keeper(lock, cgroup)
        opened = [await _reader(descriptor) for descriptor in pipes]
        (stdout, stderr, telemetry, status), transports = zip(*opened, strict=True)
        trainer = cls(process, life, stdout, stderr, telemetry, status, cgroup, enforced, list(transports))
        launch = {
            "command": command,
            "directory": str(directory),
            "environment": {**environment, "RUNSPINE_TELEMETRY_FD": str(telemetry_end)},
            "cgroup": str(cgroup) if cgroup else "",
            "file_size": file_size_limit(limits),
            "walled": walled,
        }
        try:
            # Over the pipe and not as arguments: any user of the machine can read those.
            await asyncio.to_thread(_write_all, trainer.life, json.dumps(launch).encode() + b"\n")
            said = await trainer._listen()
        except asyncio.CancelledError:
            # The end of the life pipe makes the keeper end whatever it has started.
            trainer.close()
            raise
        if said is None or "not_started" in said:
            await trainer._reap()
            trainer.close()
            raise NotStarted(said["not_started"] if said else "its keeper ended without a word")
        return trainer

    def term(self, grace: float) -> None:
        """Ask it to end; it is killed after the grace."""
        self._command(f"term {grace}\n")

    def kill(self) -> None:
        self._command("kill\n")

    async def wait(self) -> Exit:
        """Until the trainer and everything it started are gone. May be called again."""
        if self.exit is None:
            said = await self._listen()
            self.exit = _exit_from(said)
            self.hits = await asyncio.to_thread(hits, self.cgroup)
        await self._reap()
        return self.exit

    def kill_keeper(self) -> None:
        """For a keeper that does not do its work; the trainer dies by its parent-death signal."""
        self.process.kill()

    def close(self) -> None:
        """Let go of the pipes, read or not."""
        self._end_life()
        for transport in self.transports:
            transport.close()

    async def _reap(self) -> None:
        """Take leave of the keeper, and of whatever it left behind if it was killed."""
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

    async def _listen(self) -> dict[str, Any] | None:
        line = await self.status.readline()
        if not line.endswith(b"\n"):
            return None
        said: dict[str, Any] = json.loads(line)
        return said

    def _command(self, line: str) -> None:
        if self.life >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.life, line.encode())


def _start_keeper(lock: Path, cgroup: Path | None) -> tuple[subprocess.Popen[bytes], int, list[int], int]:
    """The keeper, our end of its life pipe, ours of stdout, stderr, telemetry and status, its telemetry."""
    # The lock is the keeper's until it ends, so that a restarted worker can wait for that.
    lock.write_text(str(cgroup or ""))
    holding = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    life_end, life = os.pipe()
    pipes = [os.pipe() for _ in range(4)]
    stdout, stderr, telemetry, status = (write for _, write in pipes)
    for end in (stdout, telemetry):
        # The more fits, the less often a trainer waits for us. The system may refuse.
        with contextlib.suppress(OSError):
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        fcntl.flock(holding, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # From the main thread: the parent-death signal is bound to the thread that forks.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(status), str(holding), str(telemetry)],
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
        raise NotStarted(f"its keeper could not be started: {error}") from error
    finally:
        for descriptor in (life_end, stdout, stderr, telemetry, status, holding):
            os.close(descriptor)
    _own_children.add(process.pid)
    return process, life, [read for read, _ in pipes], telemetry


def _exit_from(said: dict[str, Any] | None) -> Exit:
    if said is None:
        return Exit(unknown=True)
    return Exit(said["exit_code"], said["signal"], left=tuple(said["left"]))


def adopt_orphans() -> None:
    """Make this process inherit what a killed keeper leaves behind."""
    global _adopting  # noqa: PLW0603 - a process either is a subreaper or is not
    _adopting = True
    keeper.prctl(keeper.PR_SET_CHILD_SUBREAPER, 1)


def orphans() -> list[int]:
    """Children that this process did not start itself but inherited from a killed keeper.

    Those are never in our own session, because a keeper begins a new one; what a runner's preflight
    starts in a thread is.
    """
    found: list[int] = []
    if not _adopting:
        return found
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
            ours = int(name) in _own_children or os.getsid(int(name)) == os.getsid(0)
            if parent == os.getpid() and not ours:
                found.append(int(name))
    return found


def _kill_each(pids: list[int]) -> None:
    for pid in pids:
        keeper.send(pid, signal.SIGSTOP)
        keeper.kill_all(pid, "")
        keeper.send(pid, signal.SIGKILL)
    deadline = time.monotonic() + keeper.SWEEP_SECONDS
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.005)


def wait_for_keeper(lock: Path, timeout: float) -> bool:
    """After a restart: whether the keeper that holds this lock is gone, killing what it may have left."""
    try:
        file = lock.open("r")
    except FileNotFoundError:
        return True
    with file:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.02)
        if cgroup := file.read().strip():
            remove_cgroup(Path(cgroup))
    return True


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
