"""From a spec to the exact process: command, folder, environment, or the reason why not."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from runspine.runners import Launch, NotReady, Runner
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from services.worker.environment import known_secrets, trainer_environment
from services.worker.pythons import python_for
from services.worker.redact import Redactor
from services.worker.resume import Start

log = structlog.get_logger()

# In the run's directory, the link to what it learns from.
DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trainer ready to be started, or `obstacle` saying why it cannot be."""

    run_dir: Path
    redact: Redactor
    command: list[str]
    directory: Path
    environment: dict[str, str]
    obstacle: str = ""


def describe(name: str, runner: Runner, pythons: Mapping[str, str] | None = None) -> RunnerInfo:
    """What a runner says of itself. It is somebody else's code: its bugs do not stop the worker."""
    try:
        info = runner.info()
    except Exception as error:
        log.exception("runner.failed", runner=name)
        return RunnerInfo(name=name, not_ready=f"it cannot describe itself: {type(error).__name__}: {error}")
    try:
        python_for(name, pythons or {}, os.environ)
    except NotReady as error:
        info.not_ready = info.not_ready or str(error)
    return info


def run_directory(worker_dir: Path, run_id: str, attempt: int) -> Path:
    return worker_dir / "runs" / run_id / f"attempt-{attempt}"


def prepare(
    spec: RunSpec,
    run_id: str,
    attempt: int,
    run_dir: Path,
    runners: Mapping[str, Runner],
    environment: Mapping[str, str],
    *,
    pythons: Mapping[str, str] | None = None,
    gpus: Sequence[str] = (),
    start: Start | None = None,
) -> Prepared:
    """Make the run's directory and ask its runner for the command."""
    redact = Redactor(known_secrets(spec, environment))
    start = start or Start()
    try:
        run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if start.obstacle:
            raise NotReady(start.obstacle)
        python = python_for(spec.runner, pythons or {}, environment)
        if start.dataset:
            _place(run_dir / DATASET, start.dataset)
        launch = _launch(spec, run_dir, runners, python, redact)
        variables = trainer_environment(
            spec,
            environment,
            run_id=run_id,
            attempt=attempt,
            run_dir=str(run_dir),
            variables=launch.variables,
            gpus=gpus,
        )
        variables |= start.variables
        _note(run_dir, redact, launch, variables)
    except (NotReady, OSError) as error:
        return Prepared(run_dir, redact, list(spec.command), run_dir, {}, redact(str(error)))
    return Prepared(run_dir, redact, launch.command, launch.directory, variables)


def _launch(
    spec: RunSpec, run_dir: Path, runners: Mapping[str, Runner], python: str, redact: Redactor
) -> Launch:
    runner = runners.get(spec.runner)
    if runner is None:
        known = ", ".join(sorted(runners)) or "none"
        raise NotReady(f"runner {spec.runner!r} is not installed on this worker (it has: {known})")
    try:
        launch = runner.launch(spec, run_dir, python)
    except (NotReady, OSError):
        raise
    # A runner is somebody else's code: its bugs end its own run, not the worker.
    except Exception as error:
        log.warning("runner.failed", runner=spec.runner, trace=redact(traceback.format_exc()))
        raise NotReady(f"runner {spec.runner!r} failed: {type(error).__name__}: {error}") from error
    if not launch.command:
        raise NotReady(f"runner {spec.runner!r} gave no command")
    return launch


def _place(link: Path, dataset: Path) -> None:
    """Where a runner finds the run's dataset when it looks whether it fits."""
    link.unlink(missing_ok=True)
    link.symlink_to(dataset)


def _note(run_dir: Path, redact: Redactor, launch: Launch, variables: Mapping[str, str]) -> None:
    """What exactly is started, for whoever looks into the directory; names of variables only."""
    note = {
        "command": redact.each(launch.command),
        "directory": str(launch.directory),
        "variables": sorted(variables),
    }
    descriptor = os.open(run_dir / "command.json", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(note, file, indent=1)
