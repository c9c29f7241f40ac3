"""The cleanrl runner: scripts of a CleanRL checkout, unmodified, in the virtualenv of this runner.

The checkout is the user's (RUNSPINE_CLEANRL_DIR). The instrumentation runs a script in place and records it;
what a script does not support, such as resuming, the runner does not support either.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import runspine.instrument
from runspine.domain.defaults import DEFAULT_SEED
from runspine.instrument.checkout import CleanrlCheckout, CleanrlCheckoutError
from runspine.instrument.git_checkout import version_of
from runspine.instrument.videos import EVALUATION_VARIABLE
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.cleanrl_check import check_script, films_evaluation
from runspine.services.worker.runners.cleanrl_scripts import (
    EVALUATION_VIDEO,
    FROM_SPEC,
    CleanrlScript,
    NoSchemaError,
    read_script,
)
from runspine.services.worker.runners.env_check import missing_packages
from runspine.services.worker.runners.evaluation import launch_evaluation
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec

LAUNCHER = Path(runspine.instrument.__file__).with_name("__main__.py")
PACKAGES = ("torch", "gymnasium", "tensorboard", "tyro")
EXTRA = "runspine[cleanrl]"
# A machine without a display can still record videos.
HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}
# Every checkout of CleanRL has it. Four iterations of its 512 steps.
EXAMPLE = RunSpec(algo="ppo", env="CartPole-v1", total_steps=2048)


class CleanrlRunner:
    """Runs scripts of a CleanRL checkout."""

    def info(self) -> RunnerInfo:
        info = RunnerInfo(
            name="cleanrl",
            summary="unmodified CleanRL scripts from a checkout; every step recorded, no resume",
            modes=[TRAIN, EVALUATE],
            # With params.capture_video or save_model.
            videos=True,
            uses_gpu=True,
            # No list of envs: scripts on envpool and others have their own ids. A launch checks.
        )
        try:
            checkout = CleanrlCheckout.find(os.environ)
        except CleanrlCheckoutError as error:
            info.not_ready = str(error)
            return info
        found = scripts(checkout)
        info.algos.extend(script.info() for script in found.values())
        if EXAMPLE.algo in found:
            info.example.CopyFrom(EXAMPLE)
        info.not_ready = missing_packages("cleanrl", PACKAGES, EXTRA)
        return info

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            # The evaluator needs Runspine's packages; the runner's Python has the script's.
            return launch_evaluation(spec, run_dir, sys.executable)
        try:
            checkout = CleanrlCheckout.find(os.environ)
        except CleanrlCheckoutError as error:
            raise NotReadyError(str(error)) from error
        script = find_script(checkout, spec.algo)
        arguments = arguments_for(script, spec)
        versions = check_script(python, script, spec, {**HEADLESS, **spec.variables})
        command = [python, str(LAUNCHER), "--path", str(checkout.folder), str(script.path), *arguments]
        versions["cleanrl"] = version_of(checkout.folder) or "no git checkout"
        variables = {**HEADLESS, **_videos(script, spec)}
        return Launch(command, run_dir, variables, versions, reads=(checkout.folder,))


def scripts(checkout: CleanrlCheckout) -> dict[str, CleanrlScript]:
    """The scripts whose arguments can be read."""
    found = {}
    for name, path in checkout.scripts().items():
        try:
            found[name] = read_script(path)
        except (NoSchemaError, OSError):
            continue
    return found


def find_script(checkout: CleanrlCheckout, algo: str) -> CleanrlScript:
    """The script of an algorithm. Raises NotReadyError with the nearest name."""
    paths = checkout.scripts()
    if algo not in paths:
        raise NotReadyError(f"algo {not_accepted(algo, scripts(checkout))}")
    try:
        return read_script(paths[algo])
    except (NoSchemaError, OSError) as error:
        raise NotReadyError(f"{paths[algo]} cannot be run: {error}") from error


def arguments_for(script: CleanrlScript, spec: RunSpec) -> list[str]:
    """The script's own command line. Raises NotReadyError for what it does not take."""
    given: dict[str, Any] = {"seed": spec.seed if spec.HasField("seed") else DEFAULT_SEED}
    if spec.env:
        given["env_id"] = spec.env
    if spec.total_steps:
        given["total_timesteps"] = spec.total_steps
    for name in given.keys() - script.names:
        raise NotReadyError(f"{FROM_SPEC[name]}: {script.name} has no argument {name}: leave the field out")
    words: list[str] = []
    for name in sorted(spec.params):
        if name in FROM_SPEC:
            raise NotReadyError(f"params.{name}: use the run's field {FROM_SPEC[name]}")
        if name == EVALUATION_VIDEO and script.evaluates:
            continue  # for the launcher
        if name not in script.names:
            raise NotReadyError(f"params.{name}: {not_accepted(name, script.names - FROM_SPEC.keys())}")
        given[name] = plain_value(spec.params[name])
    for name, value in given.items():
        words += option(name, value)
    return words


def _videos(script: CleanrlScript, spec: RunSpec) -> dict[str, str]:
    """The variable by which the launcher leaves out videos of the script's evaluation."""
    return {EVALUATION_VARIABLE: "false"} if script.evaluates and not films_evaluation(spec) else {}


def option(name: str, value: Any) -> list[str]:
    """One argument as tyro expects it. Pure."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, list):
        return [f"--{flag}", *map(str, value)]
    if isinstance(value, dict):
        return [f"--{flag}", *(str(word) for pair in value.items() for word in pair)]
    return [f"--{flag}", str(value)]
