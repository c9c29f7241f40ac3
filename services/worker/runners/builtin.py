"""The builtin runner: Runspine's own PPO, DQN, SAC and tabular Q-learning on any Gymnasium env."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import runspine
from runspine.domain.defaults import DEFAULT_SEED
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.args_schema import params_of, summary_of
from runspine.services.worker.runners.env_check import EnvSpaces, check_env, env_kwargs, missing_packages
from runspine.services.worker.runners.evaluation import launch_evaluation
from runspine.services.worker.runners.play import launch_play
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.trainers import fork_file
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, TRAIN, RunSpec

ALGORITHMS = Path(runspine.__file__).parent / "trainers" / "builtin"
NAMES = ("ppo", "dqn", "sac", "qlearning")
PACKAGES = ("torch", "gymnasium", "numpy", "tyro")
EXTRA = "runspine[builtin]"
# Given by fields of the spec.
FROM_SPEC = frozenset({"env_id", "env_kwargs", "seed", "total_timesteps"})


class BuiltinRunner:
    """Runs the algorithms of runspine.trainers.builtin."""

    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="builtin",
            summary="Runspine's algorithms in one readable file each, on any Gymnasium env; resumes exactly",
            modes=[TRAIN, EVALUATE, PLAY],
            algos=[algo_info(name) for name in NAMES],
            resumes=True,
            warm_starts=True,
            open_envs=True,
            not_ready=missing_packages("builtin", PACKAGES, EXTRA),
            uses_gpu=True,
            videos=True,
            action_spaces=["Discrete", "Box"],
            observation_spaces=["Discrete", "Box", "MultiDiscrete", "MultiBinary", "Tuple", "Dict"],
            example=RunSpec(algo="qlearning", env="FrozenLake-v1", total_steps=4000),
            forks=True,
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            return launch_evaluation(spec, run_dir, python)
        if spec.mode == PLAY:
            return launch_play(spec, run_dir, python)
        if spec.algo not in NAMES:
            raise NotReadyError(f"algo {not_accepted(spec.algo, NAMES)}")
        spaces = check_env(python, spec, PACKAGES, EXTRA)
        if reason := unfit(spec.algo, spec.env, spaces):
            raise NotReadyError(reason, "algo")
        variables = {}
        if spec.HasField("fork"):
            variables[fork_file.VARIABLE] = fork_file.write_fork(spec.fork, run_dir)
        return Launch(command(python, spec), run_dir, variables, spaces.versions)


@cache
def algo_info(name: str) -> AlgoInfo:
    """Summary and parameters of an algorithm, read from its source."""
    source = (ALGORITHMS / f"{name}.py").read_text()
    params = params_of(source, without=FROM_SPEC)
    return AlgoInfo(name=name, summary=summary_of(source), params=params, warm_starts=True)


def command(python: str, spec: RunSpec) -> list[str]:
    """The algorithm's command line with every argument."""
    words = [python, "-m", f"runspine.trainers.builtin.{spec.algo}", "--env-id", spec.env]
    if spec.env_kwargs:
        words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else DEFAULT_SEED)]
    if spec.total_steps:
        words += ["--total-timesteps", str(spec.total_steps)]
    for name in sorted(spec.params):
        words += _option(name, plain_value(spec.params[name]))
    return words


def _option(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", str(value)]


def unfit(algo: str, env: str, spaces: EnvSpaces) -> str:
    """Why the algorithm cannot learn in such an env; empty when it can. Pure."""
    actions, observations = spaces.actions, spaces.observations
    if algo in ("dqn", "qlearning") and actions.kind != "Discrete":
        instead = "use ppo or sac" if actions.kind == "Box" else "choose another env"
        return f"{algo} needs discrete actions, and those of {env} are {actions.text}: {instead}"
    if algo == "qlearning" and observations.kind != "Discrete":
        return (
            f"qlearning needs discrete observations, and those of {env} are {observations.text}: "
            "use ppo or dqn"
        )
    if algo == "sac" and (actions.kind != "Box" or not actions.bounded):
        instead = "use ppo or dqn" if actions.kind == "Discrete" else "use ppo"
        return f"sac needs continuous, bounded actions, and those of {env} are {actions.text}: {instead}"
    if algo == "ppo" and actions.kind not in ("Discrete", "Box"):
        return f"ppo needs Discrete or Box actions, and those of {env} are {actions.text}"
    return ""
