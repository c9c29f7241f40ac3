"""A run as the SDK sees it: an environment, a pipe, and somebody who reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from runspine.sdk.encoding import rows_of, unpacked
from runspine.sdk.run import Run
from runspine.sdk.wrapping import wrapped

# Warnings are errors in tests, and this one's would crash the interpreter while it is being imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import Box2D  # type: ignore[import-untyped]  # noqa: F401


class Listener:
    """Reads the pipe as the worker would, in a thread of its own."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self._read, self._write = os.pipe()
        self._data: list[bytes] = []
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()
        self.environment = {
            "RUNSPINE_RUN_ID": "01TEST",
            "RUNSPINE_RUN_DIR": str(folder),
            "RUNSPINE_TELEMETRY_FD": str(self._write),
            **{f"RUNSPINE_{name.upper()}": value for name, value in variables.items()},
        }
        self.run = Run(self.environment)

    def wrap(self, env: Any, slot: int | None = None) -> Any:
        return wrapped(self.run, env, slot)

    def lines(self) -> list[dict[str, Any]]:
        """Finish the run; every line it has written."""
        self.close()
        return [json.loads(line) for line in b"".join(self._data).splitlines() if line.startswith(b"{")]

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()
        os.close(self._write)
        self._thread.join(60)
        assert not self._thread.is_alive(), "the pipe did not end: a process still holds its other end"
        os.close(self._read)

    @property
    def notes(self) -> list[str]:
        """Lines for the run's log; after `lines`."""
        return [line.decode() for line in b"".join(self._data).splitlines() if line.startswith(b"runspine:")]

    @property
    def data(self) -> bytes:
        """What was written; after `lines`."""
        return b"".join(self._data)

    def _drain(self) -> None:
        while chunk := os.read(self._read, 1 << 16):
            self._data.append(chunk)


def column(emitted: Any) -> Any:
    """A column of a line as rows again."""
    return rows_of(unpacked(emitted)) if isinstance(emitted, dict) else emitted


def of_type(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == kind]


def whole(lines: list[dict[str, Any]], episode_id: str, name: str) -> np.ndarray[Any, Any]:
    """A column of an episode, from all its lines, in order and without a gap."""
    blocks = [line for line in of_type(lines, "steps") if line["episode_id"] == episode_id]
    at = 0
    for block in blocks:
        assert block["first"] == at
        at += block["n"]
    return np.concatenate([column(block[name]) for block in blocks])


def run_with(descriptor: int, folder: Path) -> Run:
    given = {"RUN_ID": "x", "RUN_DIR": str(folder), "TELEMETRY_FD": str(descriptor)}
    return Run({f"RUNSPINE_{name}": value for name, value in given.items()})


def in_a_run(folder: Path, script: str, *, timeout: float = 60) -> list[dict[str, Any]]:
    """Lines that a trainer, started as a worker would, writes to its descriptor."""
    read, write = os.pipe()
    environment = {
        **os.environ,
        "RUNSPINE_RUN_ID": "01TEST",
        "RUNSPINE_RUN_DIR": str(folder),
        "RUNSPINE_TELEMETRY_FD": str(write),
    }
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, pass_fds=[write], cwd=folder)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    assert process.wait(timeout) == 0
    return [json.loads(line) for line in data.splitlines()]
