"""Turns a spec into a trainer process: command, directory and environment, or the obstacle."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runspine.datasets import RUN_FOLDER
from runspine.runners import Launch, NotReadyError, Runner
from runspine.services.worker.artifacts.resume import AttemptStart
from runspine.services.worker.claim.run_packages import link_sdk, program_variables
from runspine.services.worker.process.environment import known_secrets, trainer_environment
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.runners.interpreter import python_for
from runspine.services.worker.runners.play import offered_actors
from runspine.services.worker.virtualenvs.cache import Virtualenv
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import PLAY, RunSpec

log = structlog.get_logger()

MAX_VERSIONS = 32
MAX_VERSION_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trainer ready to be started; `obstacle` states why it cannot be."""

    run_dir: Path
    redact: Redactor
    command: list[str]
    directory: Path
    environment: dict[str, str]
    obstacle: str = ""
    # Versions of what it runs, for AttemptStarted.
    versions: dict[str, str] = field(default_factory=dict)
    # Paths that a sandboxed trainer reads.
    reads: tuple[Path, ...] = ()


def describe(name: str, runner: Runner, pythons: Mapping[str, str] | None = None) -> RunnerInfo:
    """The runner's own description. Runners are third-party code: their bugs do not stop the worker."""
    try:
        info = runner.info()
    except Exception as error:
        log.exception("runner.failed", runner=name)
        return RunnerInfo(name=name, not_ready=f"it cannot describe itself: {type(error).__name__}: {error}")
    try:
        python = python_for(name, pythons or {}, os.environ)
    except NotReadyError as error:
        info.not_ready = info.not_ready or str(error)
        return info
    if PLAY in info.modes:
        info.actors.extend(offered_actors(python, os.environ))
    return info


def run_directory(worker_dir: Path, run_id: str, attempt: int) -> Path:
    """The directory of one attempt."""
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
    start: AttemptStart | None = None,
    virtualenv: Virtualenv | None = None,
    wandb_proxy: bool = False,
) -> Prepared:
    """Create the run's directory and get the command from its runner."""
    redact = Redactor(known_secrets(spec, environment))
    start = start or AttemptStart()
    if start.work is not None:
        spec = _started_in(spec, start.work)
    spec = program_variables(spec, virtualenv)
    try:
        run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if start.obstacle:
            raise NotReadyError(start.obstacle)
        python = virtualenv.program if virtualenv else python_for(spec.runner, pythons or {}, environment)
        if start.dataset:
            _link_dataset(run_dir / RUN_FOLDER, start.dataset)
        launch = ask_runner(spec, run_dir, runners, python, redact)
        variables = trainer_environment(
            spec,
            environment,
            run_id=run_id,
            attempt=attempt,
            run_dir=str(run_dir),
            variables=launch.variables,
            gpus=gpus,
            wandb_proxy=wandb_proxy,
        )
        variables |= start.variables
        if virtualenv is not None and (sdk := link_sdk(run_dir, virtualenv)):
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, (variables.get("PYTHONPATH"), sdk)))
        if spec.max_episodes and start.episodes_before:
            variables["RUNSPINE_MAX_EPISODES"] = str(max(0, spec.max_episodes - start.episodes_before))
        _write_command(run_dir, redact, launch, variables)
    except (NotReadyError, OSError) as error:
        return Prepared(run_dir, redact, list(spec.command), run_dir, {}, redact(str(error)))
    return Prepared(
        run_dir,
        redact,
        launch.command,
        launch.directory,
        variables,
        versions=_clean_versions(launch.versions, redact),
        reads=launch.reads,
    )


def ask_runner(
    spec: RunSpec, run_dir: Path, runners: Mapping[str, Runner], python: str, redact: Redactor
) -> Launch:
    """The launch that the spec's runner gives. Raises NotReadyError and OSError."""
    runner = runners.get(spec.runner)
    if runner is None:
        known = ", ".join(sorted(runners)) or "none"
        raise NotReadyError(
            f"runner {spec.runner!r} is not installed on this worker (it has: {known})", "runner"
        )
    try:
        launch = runner.launch(spec, run_dir, python)
    except (NotReadyError, OSError):
        raise
    # Runners are third-party code: a bug ends its own run, not the worker.
    except Exception as error:
        log.warning("runner.failed", runner=spec.runner, trace=redact(traceback.format_exc()))
        raise NotReadyError(
            f"runner {spec.runner!r} failed: {type(error).__name__}: {error}", "runner"
        ) from error
    if not launch.command:
        raise NotReadyError(f"runner {spec.runner!r} gave no command", "runner")
    return launch


def _started_in(spec: RunSpec, folder: Path) -> RunSpec:
    """The spec of a program that starts in this folder."""
    changed = RunSpec()
    changed.CopyFrom(spec)
    changed.workdir = str(folder)
    return changed


def _clean_versions(versions: Mapping[str, str], redact: Redactor) -> dict[str, str]:
    """What a runner reports as versions, bounded: the log keeps it for ever."""
    kept = sorted(versions.items())[:MAX_VERSIONS]
    return {str(name)[:MAX_VERSION_LENGTH]: redact(str(text))[:MAX_VERSION_LENGTH] for name, text in kept}


def _link_dataset(link: Path, dataset: Path) -> None:
    """Link the dataset into the run's directory, where its runner checks that it fits."""
    link.unlink(missing_ok=True)
    link.symlink_to(dataset)


def _write_command(run_dir: Path, redact: Redactor, launch: Launch, variables: Mapping[str, str]) -> None:
    """Write command.json, for people who inspect the directory; variables by name only."""
    note = {
        "command": redact.each(launch.command),
        "directory": str(launch.directory),
        "variables": sorted(variables),
    }
    descriptor = os.open(run_dir / "command.json", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(note, file, indent=1)
