"""The cleanrl runner: scripts of a CleanRL checkout, unmodified, in the virtualenv of this runner.

The checkout is the user's (RUNSPINE_CLEANRL_DIR). The launcher runs a script in place and records it; what
a script cannot do, such as resuming, the runner cannot do either.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import runspine.launcher
from runspine.launcher.checkout import Checkout, NoCheckout
from runspine.nearest import not_accepted
from runspine.plain import plain_value
from runspine.runners import Launch, NotReady
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec
from services.worker.evaluation.launching import launch_evaluation
from services.worker.runners.cleanrl_check import check
from services.worker.runners.cleanrl_scripts import FROM_SPEC, NoSchema, Script, read_script
from services.worker.runners.env_check import what_is_missing

LAUNCHER = Path(runspine.launcher.__file__).with_name("__main__.py")
PACKAGES = ("torch", "gymnasium", "tensorboard", "tyro")
EXTRA = "runspine[cleanrl]"
# A machine without a screen can still record videos.
HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}
# Every checkout of CleanRL has it. Four rounds of its own 512 steps.
EXAMPLE = RunSpec(algo="ppo", env="CartPole-v1", total_steps=2048)


class CleanrlRunner:
    def info(self) -> RunnerInfo:
        info = RunnerInfo(
            name="cleanrl",
            summary="unmodified CleanRL scripts from a checkout; every step recorded, no resume",
            modes=[TRAIN, EVALUATE],
            # No list of envs: scripts on envpool and the like have ids of their own. A launch checks.
        )
        try:
            checkout = Checkout.find(os.environ)
        except NoCheckout as error:
            info.not_ready = str(error)
            return info
        found = scripts(checkout)
        info.algos.extend(script.info() for script in found.values())
        if EXAMPLE.algo in found:
            info.example.CopyFrom(EXAMPLE)
        info.not_ready = what_is_missing("cleanrl", PACKAGES, EXTRA)
        return info

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            # The evaluator is ours and needs our packages; the runner's Python has the script's.
            return launch_evaluation(spec, run_dir, sys.executable)
        try:
            checkout = Checkout.find(os.environ)
        except NoCheckout as error:
            raise NotReady(str(error)) from error
        script = find_script(checkout, spec.algo)
        arguments = arguments_for(script, spec)
        check(python, script, spec, {**HEADLESS, **spec.variables})
        command = [python, str(LAUNCHER), "--path", str(checkout.folder), str(script.path), *arguments]
        return Launch(command=command, directory=run_dir, variables=HEADLESS)


def scripts(checkout: Checkout) -> dict[str, Script]:
    """Those whose arguments can be read."""
    found = {}
    for name, path in checkout.scripts().items():
        try:
            found[name] = read_script(path)
        except (NoSchema, OSError):
            continue
    return found


def find_script(checkout: Checkout, algo: str) -> Script:
    """Raises NotReady with the nearest name."""
    paths = checkout.scripts()
    if algo not in paths:
        raise NotReady(f"algo {not_accepted(algo, scripts(checkout))}")
    try:
        return read_script(paths[algo])
    except (NoSchema, OSError) as error:
        raise NotReady(f"{paths[algo]} cannot be run: {error}") from error


def arguments_for(script: Script, spec: RunSpec) -> list[str]:
    """The script's own command line. Raises NotReady for what it does not take."""
    given: dict[str, Any] = {"seed": spec.seed if spec.HasField("seed") else 1}
    if spec.env:
        given["env_id"] = spec.env
    if spec.total_steps:
        given["total_timesteps"] = spec.total_steps
    for name in given.keys() - script.names:
        raise NotReady(f"{FROM_SPEC[name]}: {script.name} has no argument {name}: leave the field out")
    words: list[str] = []
    for name in sorted(spec.params):
        if name in FROM_SPEC:
            raise NotReady(f"params.{name}: say it as the run's field {FROM_SPEC[name]}")
        if name not in script.names:
            raise NotReady(f"params.{name}: {not_accepted(name, script.names - FROM_SPEC.keys())}")
        given[name] = plain_value(spec.params[name])
    for name, value in given.items():
        words += option(name, value)
    return words


def option(name: str, value: Any) -> list[str]:
    """In tyro's words. Pure."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, list):
        return [f"--{flag}", *map(str, value)]
    if isinstance(value, dict):
        return [f"--{flag}", *(str(word) for pair in value.items() for word in pair)]
    return [f"--{flag}", str(value)]
