"""A process that has imported a program and forks one for each that tests start.

    python -m tests.kit.forks.preloaded MODULE DESCRIPTOR

Each packet on the socket is JSON (`arguments`, `directory`, `environment`) with three descriptors: standard
output, standard error, and a pipe that gets the exit code. The reply is the pid. The end of the socket ends
this process; programs that were started go on.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, Never

PACKET = 1 << 18
COMMAND_LINE = "runspine"
DESCRIPTORS = 3


def preload(module: str) -> None:
    """Import everything that the program imports."""
    if module == COMMAND_LINE:
        # Its commands are imported when they are used, and so is most of what they need.
        for package in ("runspine.cli", "runspine.rpc"):
            _import_below(package)
    else:
        spec = importlib.util.find_spec(module)
        assert spec, module
        entry = f"{module}.__main__" if spec.submodule_search_locations else module
        importlib.import_module(entry)
        # `runpy` executes it once more, under the name __main__.
        del sys.modules[entry]
    gc.collect()
    gc.freeze()


def _import_below(package: str) -> None:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(found.name)


class Forks:
    """Starts programs on request and reports how they ended."""

    def __init__(self, module: str, requests: socket.socket) -> None:
        self._module = module
        self._requests = requests
        # By pid: the pipe that gets the exit code.
        self._running: dict[int, int] = {}
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._requests.fileno(), self._wake], [], [])
            if self._wake in ready:
                with suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._reap()
            if self._requests.fileno() in ready:
                body, received, _, _ = socket.recv_fds(self._requests, PACKET, DESCRIPTORS)
                if not body:
                    return
                self._start(body, received)

    def _start(self, body: bytes, received: list[int]) -> None:
        output, errors, status = received
        pid = os.fork()
        if not pid:
            self._become(json.loads(body), output, errors, status)
        os.close(output)
        os.close(errors)
        self._running[pid] = status
        self._requests.send(str(pid).encode())

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            pipe = self._running.pop(pid)
            # The test that asked may be gone.
            with suppress(BrokenPipeError):
                os.write(pipe, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(pipe)

    def _become(self, request: dict[str, Any], output: int, errors: int, status: int) -> Never:
        """Be the program: what it raises ends this process, as it ends an interpreter."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        for descriptor in (output, errors, status, self._wake, self._waker, *self._running.values()):
            os.close(descriptor)
        self._requests.close()
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv[1:] = request["arguments"]
        runpy.run_module(self._module, run_name="__main__", alter_sys=True)
        sys.exit()


def main() -> None:
    module, descriptor = sys.argv[1], int(sys.argv[2])
    preload(module)
    Forks(module, socket.socket(fileno=descriptor)).serve()


if __name__ == "__main__":
    main()
