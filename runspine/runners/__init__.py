"""The port that every runner implements, and the discovery of installed runners.

A runner turns a spec into a command; the worker starts and stops the process, records its telemetry and
uploads its artifacts. Packages register runners in the entry point group `runspine.runners`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec

GROUP = "runspine.runners"


class NotReadyError(Exception):
    """The run cannot be started here; the message states what is missing and what to do.

    `field` is the field of the spec to change, such as env or params.gamma. Without it, a message that begins
    with the name of a field is taken to be about that one.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: the exact argument vector, never passed through a shell."""

    command: list[str]
    directory: Path
    variables: dict[str, str] = field(default_factory=dict)
    # Versions of what it runs that are not in the spec, by name: packages, the commit of a checkout.
    versions: dict[str, str] = field(default_factory=dict)
    # Paths that it reads, in addition to its directory and its Python: all that a sandboxed process sees.
    reads: tuple[Path, ...] = ()


class Runner(Protocol):
    """Turns a spec into a command."""

    def info(self) -> RunnerInfo:
        """Its modes, parameters and readiness. Cheap: imports nothing heavy."""

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        """The process for this spec; `python` is the interpreter to use. Raises NotReadyError."""


@dataclass(frozen=True, slots=True)
class BrokenRunner:
    """A registered runner that could not be loaded. It is listed with the reason and never launched."""

    name: str
    why: str

    def info(self) -> RunnerInfo:
        return RunnerInfo(name=self.name, modes=[TRAIN], open_params=True, not_ready=self.why)

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        raise NotReadyError(f"runner {self.name} cannot be loaded on this worker: {self.why}")


def installed_runners() -> dict[str, Runner]:
    """Every runner registered in this Python, by name."""
    runners: dict[str, Runner] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        try:
            runners[entry.name] = entry.load()()
        except Exception as error:  # noqa: BLE001 - code of another package must not stop the others
            runners[entry.name] = BrokenRunner(entry.name, f"{type(error).__name__}: {error}")
    return runners
