"""A Ray cluster of two nodes on this machine, each of which can be lost as a machine is lost."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.kit.servers.nats import free_port

# Loopback, but not the one address that Ray takes for a mistake and replaces.
HEAD, SECOND = "127.0.0.2", "127.0.0.3"
# Away from the ports that tests and stacks choose theirs from.
WORKER_PORTS = ("--min-worker-port=23000", "--max-worker-port=25999")
MARK = "RAY_TEST_NODE"
CPUS = 4


class Node:
    """One `ray start`. What it starts carries its mark, or is the child of something that does."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(8)

    def processes(self) -> dict[int, psutil.Process]:
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(MARK) == self.mark:
                    found[process.pid] = process
                    found.update({child.pid: child for child in process.children(recursive=True)})
        return {pid: process for pid, process in found.items() if _status(process) != psutil.STATUS_ZOMBIE}

    def runs(self) -> set[str]:
        """Those that have a trainer here."""
        found = set()
        for process in self.processes().values():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                found.add(process.environ().get("RUNSPINE_RUN_ID", ""))
        return found - {""}

    def freeze(self) -> None:
        """Afterwards nothing on it moves, nor starts anything."""
        self._send(signal.SIGSTOP, until=psutil.STATUS_STOPPED)

    def thaw(self) -> None:
        for process in self.processes().values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """A machine that is gone. Frozen first: no worker hands its run back because Ray dies before it."""
        self.freeze()
        self._send(signal.SIGKILL, until=psutil.STATUS_DEAD)

    def _send(self, number: signal.Signals, *, until: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while others := [one for one in self.processes().values() if _status(one) != until]:
            assert time.monotonic() < deadline, others
            for process in others:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            time.sleep(0.05)


class Cluster:
    """A head and a second node, closed to clients without the token."""

    def __init__(self, python: str, folder: Path) -> None:
        self.address = f"{HEAD}:{free_port()}"
        self.variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(24)}
        self.head, self.second = Node(), Node()
        self._ray = str(Path(python).with_name("ray"))
        self._folder = folder

    def start(self) -> None:
        _, _, port = self.address.partition(":")
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={self._folder}")
        self._start(self.head, *head, f"--node-ip-address={HEAD}", "--resources", '{"left": 8}')
        second = (f"--address={self.address}", f"--node-ip-address={SECOND}")
        self._start(self.second, *second, "--resources", '{"right": 8}')

    def stop(self) -> None:
        self.second.kill()
        self.head.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, node: Node, *arguments: str) -> None:
        """Ray gives a node half a minute to appear. On a busy machine that may be too short: again, then."""
        sizes = (f"--num-cpus={CPUS}", f"--memory={8 << 30}", *WORKER_PORTS, "--disable-usage-stats")
        for last in (False, False, True):
            done = subprocess.run(
                [self._ray, "start", *arguments, *sizes],
                env={**os.environ, **self.variables, "RAY_DISABLE_IMPORT_WARNING": "1", MARK: node.mark},
                capture_output=True,
                text=True,
                timeout=240,
            )
            if done.returncode == 0:
                return
            emitted = done.stdout + done.stderr
            assert "timed out during startup" in emitted, emitted
            assert not last, emitted
            node.kill()


@contextlib.contextmanager
def running_cluster(python: str) -> Iterator[Cluster]:
    # Ray's sockets lie below it, and their paths may not be long.
    cluster = Cluster(python, Path(f"/tmp/ray-{os.getpid()}"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_ZOMBIE)
