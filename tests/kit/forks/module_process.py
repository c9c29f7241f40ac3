"""Programs as processes, forked from one that has imported them: most of what a short one costs."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Protocol

from tests.kit.paths import ROOT

# They matter only when a program is at work.
READ_LATER = ("OMP_NUM_THREADS", "COLUMNS", "XDG_CACHE_HOME")
# Libraries set them when they are imported or draw; in the process of the tests that is asked for by no test.
SET_BY_LIBRARIES = (
    "CRC32C_SW_MODE",
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
    "MUJOCO_GL",
    "PYGAME_HIDE_SUPPORT_PROMPT",
    "PYOPENGL_PLATFORM",
    "SDL_AUDIODRIVER",
    "SDL_NO_SIGNAL_HANDLERS",
    "SDL_VIDEODRIVER",
    "TORCHINDUCTOR_CACHE_DIR",
)


class Process(Protocol):
    """What tests do with a program: a part of `subprocess.Popen`."""

    pid: int

    @property
    def returncode(self) -> int | Any: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class ForkedProcess:
    """A program that `tests.kit.forks.preloaded` has forked; the pipe gives its exit code."""

    def __init__(self, module: str, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._module = module
        self._status = status

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._module, timeout or 0.0)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            written = os.read(self._status, 16)
            assert written, f"the process that forked {self._module} is gone"
            self.returncode = int(written)
            os.close(self._status)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        # A process that was waited for may have left its pid to another.
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Preloaded:
    """The process that has imported one module."""

    def __init__(self, module: str) -> None:
        self._module = module
        # Tests start programs from threads, too.
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.kit.forks.preloaded", module, str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, env=COMMON, pass_fds=[theirs.fileno()])

        # It lives as long as the socket is open: until the tests end.
        atexit.register(self._close)

    def _close(self) -> None:
        self._requests.close()
        self._process.wait()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        errors: int,
    ) -> ForkedProcess:
        request = {"arguments": arguments, "directory": str(directory), "environment": dict(environment)}
        body = json.dumps(request).encode()
        status, theirs = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._requests, [body], [output, errors, theirs])
                pid = int(self._requests.recv(16))
        finally:
            os.close(theirs)
        return ForkedProcess(self._module, pid, status)


def foreign(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that libraries may read when they are imported."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("RUNSPINE_", "PYTEST_")) and name not in READ_LATER
    }


# Read before a test module is imported.
COMMON = foreign(os.environ)


def as_begun(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what libraries have set since the tests began."""
    return {
        name: value
        for name, value in environment.items()
        if name in COMMON or name not in SET_BY_LIBRARIES or value != os.environ.get(name)
    }


def set_by_imports() -> set[str]:
    """Variables that imports have set and that are not known: with them, nothing would be forked."""
    return {name for name, _ in foreign(as_begun(os.environ)).items() ^ COMMON.items()}


@cache
def preloaded(module: str) -> Preloaded:
    return Preloaded(module)


def start_module(
    module: str,
    environment: Mapping[str, str],
    *arguments: str,
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes],
    directory: Path = ROOT,
) -> Process:
    """Start `python -m module`: forked where its libraries would see the same environment."""
    environment = as_begun(environment)
    if foreign(environment) == COMMON:
        output = stdout.fileno() if stdout else 1
        return preloaded(module).start(arguments, environment, directory, output, stderr.fileno())
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=directory,
        env=environment,
        stdout=stdout,
        stderr=stderr,
    )
