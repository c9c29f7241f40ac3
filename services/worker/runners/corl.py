"""The corl runner: offline learning on registered datasets, by Runspine's algorithms or CORL's scripts.

Runspine's algorithms are always available; the scripts of a checkout (RUNSPINE_CORL_DIR) run unmodified.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import runspine
from runspine.datasets import RUN_FOLDER, DatasetError, Manifest
from runspine.datasets.fit import unfit_env, unfit_spaces
from runspine.datasets.manifest import NAME, read_manifest
from runspine.datasets.spaces import from_text
from runspine.domain.defaults import DEFAULT_SEED
from runspine.instrument.corl import checkout as corl
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.args_schema import params_of, summary_of
from runspine.services.worker.runners.builtin import FROM_SPEC
from runspine.services.worker.runners.cleanrl import option
from runspine.services.worker.runners.corl_scripts import launch_script, script_infos
from runspine.services.worker.runners.env_check import EnvSpaces, check_env, env_kwargs, missing_packages
from runspine.services.worker.runners.evaluation import launch_evaluation
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec

OFFLINE = Path(runspine.__file__).parent / "trainers" / "offline"
LEARNERS = ("bc", "td3_bc", "iql")
RECORD = "record"
NAMES = (*LEARNERS, RECORD)
PACKAGES = ("torch", "gymnasium", "numpy", "tyro", "h5py", "minari")
EXTRA = "runspine[corl]"


class CorlRunner:
    """Runs offline algorithms on a dataset."""

    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="corl",
            summary="offline learning on registered datasets, by Runspine's algorithms and CORL's scripts",
            modes=[TRAIN, EVALUATE],
            algos=[*(algo_info(name) for name in NAMES), *script_infos(os.environ)],
            resumes=True,
            warm_starts=True,
            open_envs=True,
            uses_gpu=True,
            videos=True,
            not_ready=missing_packages("corl", PACKAGES, EXTRA),
            action_spaces=["Box", "Discrete"],
            observation_spaces=["Box"],
            datasets=["minari"],
            example=RunSpec(algo="bc", env="Pendulum-v1", total_steps=300),
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            return launch_evaluation(spec, run_dir, sys.executable)
        known = (*NAMES, *(info.name for info in script_infos(os.environ)))
        if spec.algo not in known:
            more = (
                "" if corl.wanted(os.environ) else f" CORL's own scripts need a checkout: {corl.HOW_TO_GET}."
            )
            raise NotReadyError(f"algo {not_accepted(spec.algo, known)}{more}")
        spaces = check_env(python, spec, PACKAGES if spec.algo in NAMES else (), EXTRA)
        if spec.algo != RECORD:
            check_dataset(spec, run_dir, spaces)
        if spec.algo not in NAMES:
            launch = launch_script(spec, run_dir, python, os.environ)
            return replace(launch, versions={**spaces.versions, **launch.versions})
        if reason := unfit(spec.algo, spec.env, spaces):
            raise NotReadyError(reason, "algo")
        return Launch(command=command(python, spec), directory=run_dir, versions=spaces.versions)


@cache
def algo_info(name: str) -> AlgoInfo:
    """Summary and parameters of an algorithm, read from its source."""
    source = (OFFLINE / f"{name}.py").read_text()
    return AlgoInfo(
        name=name,
        summary=summary_of(source),
        params=params_of(source, without=FROM_SPEC),
        needs_dataset=name != RECORD,
        # A recording plays with the policy that it starts with.
        warm_starts=True,
    )


def command(python: str, spec: RunSpec) -> list[str]:
    """The algorithm's command line with every argument."""
    words = [python, "-m", f"runspine.trainers.offline.{spec.algo}", "--env-id", spec.env]
    if spec.env_kwargs:
        words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else DEFAULT_SEED)]
    if spec.total_steps:
        words += ["--total-timesteps", str(spec.total_steps)]
    for name in sorted(spec.params):
        words += option(name, plain_value(spec.params[name]))
    return words


def check_dataset(spec: RunSpec, run_dir: Path, spaces: EnvSpaces) -> None:
    """Check that the dataset fits the env. Raises NotReadyError."""
    name = spec.dataset.name or spec.dataset.digest[:12]
    manifest = _manifest(run_dir / RUN_FOLDER / NAME, name)
    observations, actions = (
        from_text(each.kind, each.text) for each in (spaces.observations, spaces.actions)
    )
    given: dict[str, Any] = env_kwargs(spec)
    if why := unfit_env(manifest.env, manifest.env_kwargs, name, spec.env, given) or unfit_spaces(
        manifest, name, observations, actions
    ):
        raise NotReadyError(why, "dataset")


def _manifest(path: Path, name: str) -> Manifest:
    try:
        return read_manifest(path.read_bytes())
    except FileNotFoundError as error:
        raise NotReadyError(
            "dataset is missing: name a registered one, `runspine datasets ls` lists them"
        ) from error
    except (DatasetError, OSError) as error:
        raise NotReadyError(f"dataset {name}: {error}") from error


def unfit(algo: str, env: str, spaces: EnvSpaces) -> str:
    """Why the algorithm cannot learn for such an env; empty when it can. Pure."""
    if algo == RECORD:
        composed = {"Dict", "Tuple", "Text", "Graph", "Sequence"} & {
            spaces.observations.kind,
            spaces.actions.kind,
        }
        return (
            f"record keeps arrays, and {env} has a {composed.pop()} space: choose another env"
            if composed
            else ""
        )
    if spaces.observations.kind != "Box":
        return f"{algo} needs Box observations, and those of {env} are {spaces.observations.text}"
    actions = spaces.actions
    if actions.kind == "Box" and actions.bounded:
        return ""
    if actions.kind == "Discrete" and algo == "bc":
        return ""
    instead = ": use bc" if actions.kind == "Discrete" else ""
    return f"{algo} needs continuous, bounded actions, and those of {env} are {actions.text}{instead}"
