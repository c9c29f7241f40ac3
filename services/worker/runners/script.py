"""The script runner: any program, with or without protocol lines. The template for other runners."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from runspine.instrument.api import NATIVE
from runspine.instrument.startup_variables import MODE
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.named_paths import named_paths
from runspine.services.worker.runners.own_lines import writes_own_lines
from runspine.spec.command_template import NoValueError, filled
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec

PYTHONS = ("python", "python3")


class ScriptRunner:
    """Runs the command of the spec."""

    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="script",
            summary="any program; params by {params.NAME} in its command, or as JSON in RUNSPINE_PARAMS",
            modes=[TRAIN],
            takes_command=True,
            open_params=True,
            # RUNSPINE_RESUME is a checkpoint that the same program announced.
            resumes=True,
            warm_starts=True,
            uses_gpu=True,
            example=RunSpec(command=["python", "-m", "runspine.conformance.specimen"], total_steps=1000),
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if not spec.command:
            raise NotReadyError("command is empty: give a program and its arguments")
        directory = Path(spec.workdir) if spec.workdir else run_dir
        if not directory.is_dir():
            raise NotReadyError(f"workdir {directory} does not exist on this worker")
        try:
            first, *arguments = filled(spec.command, spec)
        except NoValueError as error:
            raise NotReadyError(f"command: {error}", "command") from error
        named = python if first in PYTHONS else first
        program = _find(named, directory, spec.variables.get("PATH") or os.environ.get("PATH", ""))
        wanted = (
            spec.capture.instrument
            if spec.capture.HasField("instrument")
            else not writes_own_lines(arguments, directory)
        )
        # By this variable the Python processes of the program record themselves.
        variables = {MODE: NATIVE} if wanted else {}
        reads = named_paths((program, *arguments, *spec.variables.values()))
        return Launch([program, *arguments], directory, variables, reads=reads)


def _find(program: str, directory: Path, path: str) -> str:
    """The program's full path."""
    if "/" in program:
        found = directory / program
        if not found.is_file():
            raise NotReadyError(f"program {program} does not exist (looked for {found})", "command")
        if not os.access(found, os.X_OK):
            raise NotReadyError(
                f"program {found} is not executable: chmod +x it, or name its interpreter", "command"
            )
        return str(found)
    on_path = shutil.which(program, path=path)
    if on_path is None:
        raise NotReadyError(
            f"program {program} is not on the worker's PATH: install it, or give its full path", "command"
        )
    return on_path
