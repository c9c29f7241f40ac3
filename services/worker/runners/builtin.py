"""The builtin runner: our own PPO, DQN, SAC and tabular Q-learning on any Gymnasium env."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from runspine.nearest import not_accepted
from runspine.plain import plain_value
from runspine.runners import Launch, NotReady
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, TRAIN, RunSpec
from services.worker import forking
from services.worker.evaluation.launching import launch_evaluation
from services.worker.play.launching import launch_play
from services.worker.runners.args_schema import params_of, summary_of
from services.worker.runners.env_check import EnvSpaces, check_env, env_kwargs, what_is_missing

ALGORITHMS = Path(__file__).parents[1] / "algorithms"
NAMES = ("ppo", "dqn", "sac", "qlearning")
PACKAGES = ("torch", "gymnasium", "numpy", "tyro")
EXTRA = "runspine[builtin]"
# Given by fields of the spec itself.
FROM_SPEC = frozenset({"env_id", "env_kwargs", "seed", "total_timesteps"})


class BuiltinRunner:
    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="builtin",
            summary="our own algorithms in one readable file each, on any Gymnasium env; resumes exactly",
            modes=[TRAIN, EVALUATE, PLAY],
            algos=[algo_info(name) for name in NAMES],
            resumes=True,
            warm_starts=True,
            open_envs=True,
            not_ready=what_is_missing("builtin", PACKAGES, EXTRA),
            uses_gpu=True,
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
            raise NotReady(f"algo {not_accepted(spec.algo, NAMES)}")
        spaces = check_env(python, spec, PACKAGES, EXTRA)
        if reason := unfit(spec.algo, spec.env, spaces):
            raise NotReady(reason)
        variables = {}
        if spec.HasField("fork"):
            variables[forking.VARIABLE] = forking.write_fork(spec.fork, run_dir)
        return Launch(command(python, spec), run_dir, variables)


@cache
def algo_info(name: str) -> AlgoInfo:
    source = (ALGORITHMS / f"{name}.py").read_text()
    return AlgoInfo(name=name, summary=summary_of(source), params=params_of(source, without=FROM_SPEC))


def command(python: str, spec: RunSpec) -> list[str]:
    """Every argument in sight, in the words of the algorithm's own command line."""
    words = [python, "-m", f"services.worker.algorithms.{spec.algo}", "--env-id", spec.env]
    if spec.env_kwargs:
        words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else 1)]
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
