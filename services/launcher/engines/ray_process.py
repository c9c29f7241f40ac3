"""The actor on a Ray node: starts one worker and ends with it. Imports only the standard library.

It is pickled by value, so nodes need only Ray and, for the worker, a Python that has runspine.
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
# The cluster's token, which a run could name as a secret, and Ray's path to its own packages.
NOT_INHERITED = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "PYTHONPATH")


def read_env_file(path: str) -> dict[str, str]:
    """Variables of a file of NAME=value lines; comments and empty lines are skipped."""
    found = {}
    for line in Path(path).read_text().splitlines():
        name, mark, value = line.strip().partition("=")
        if mark and not name.startswith("#"):
            found[name] = value
    return found


class RayWorkerProcess:
    """The Ray actor that runs one worker."""

    def __init__(
        self, command: list[str], variables: dict[str, str], env_file: str | None, folder: str
    ) -> None:
        directory = Path(folder)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Ray's other variables stay: they name the GPUs of this actor.
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        environment = {**inherited, **(read_env_file(env_file) if env_file else {}), **variables}
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
        """Request the worker to hand its run back."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)

    def _wait(self) -> None:
        """End the actor as soon as the worker has ended; the outcome is on the log."""
        self._child.wait()
        sys.stdout.flush()
        os._exit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGTERM)
