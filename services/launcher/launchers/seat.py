"""The seat on a Ray node: a process that starts one worker and ends with it. Knows nothing but Python.

It travels to the nodes by value, so they need Ray and, for the worker, a Python that has runspine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

PARENT_DEATH = 1
# The key to the cluster, which a run could name as a secret; and Ray's path to its own packages.
NOT_THE_WORKERS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "PYTHONPATH")


def read_env_file(path: str) -> dict[str, str]:
    """NAME=value lines; comments and empty ones are passed over."""
    found = {}
    for line in Path(path).read_text().splitlines():
        name, mark, value = line.strip().partition("=")
        if mark and not name.startswith("#"):
            found[name] = value
    return found


class Seat:
    def __init__(
        self, command: list[str], variables: dict[str, str], env_file: str | None, folder: str
    ) -> None:
        directory = Path(folder)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Ray's other variables stay: they say which GPUs are ours.
        rays = {name: value for name, value in os.environ.items() if name not in NOT_THE_WORKERS}
        environment = {**rays, **(read_env_file(env_file) if env_file else {}), **variables}
        with (directory / "worker.log").open("ab") as output:
            self._child = subprocess.Popen(
                command,
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call, and no lock is held
            )
        threading.Thread(target=self._wait, daemon=True).start()

    def pid(self) -> int:
        return self._child.pid

    def stop(self) -> None:
        """Ask the worker to hand its run back."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)

    def _wait(self) -> None:
        """The seat is free as soon as the worker has ended; how it ended stands on the log."""
        self._child.wait()
        sys.stdout.flush()
        os._exit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGTERM)
