"""The port that every runner implements, and how runners are found.

A runner turns a spec into a command; spawning, leases, telemetry, artifacts and cancel are the
worker's. Third parties register theirs under the entry point group `runspine.runners`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec

GROUP = "runspine.runners"


class NotReady(Exception):
    """The run cannot be started here; the message says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start: the exact argument vector, never passed through a shell."""

    command: list[str]
    directory: Path
    variables: dict[str, str] = field(default_factory=dict)


class Runner(Protocol):
    def info(self) -> RunnerInfo:
        """What it can do and takes; cheap, and importing nothing heavy."""

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        """The process for this spec; `python` is what the worker has chosen for it. Raises NotReady."""


@dataclass(frozen=True, slots=True)
class BrokenRunner:
    """A registered runner that could not be loaded: shown with the reason, never launched."""

    name: str
    why: str

    def info(self) -> RunnerInfo:
        return RunnerInfo(name=self.name, modes=[TRAIN], open_params=True, not_ready=self.why)

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        raise NotReady(f"runner {self.name} cannot be loaded on this worker: {self.why}")


def installed_runners() -> dict[str, Runner]:
    """Every runner registered in this Python, by name."""
    runners: dict[str, Runner] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        try:
            runners[entry.name] = entry.load()()
        except Exception as error:  # noqa: BLE001 - somebody else's code: it must not stop the others
            runners[entry.name] = BrokenRunner(entry.name, f"{type(error).__name__}: {error}")
    return runners
