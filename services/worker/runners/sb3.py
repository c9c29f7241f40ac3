"""The sb3 runner: Stable-Baselines3 from PyPI, on any Gymnasium env.

A resumed run has the weights, optimisers, replay buffer and counters of its checkpoint, but starts a new
episode with a new random sequence: it is not bit-identical to an uninterrupted run. The builtin runner's is.
"""

from __future__ import annotations

import json
from pathlib import Path

from runspine.domain.defaults import DEFAULT_SEED
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.env_check import EnvSpaces, check_env, env_kwargs, missing_packages
from runspine.services.worker.runners.evaluation import launch_evaluation
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.trainers.sb3.parameters import ALGORITHMS, algo_info
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec

LAUNCHER = "runspine.trainers.sb3.train"
PACKAGES = ("stable_baselines3", "torch", "gymnasium", "numpy")
EXTRA = "runspine[sb3]"
EXAMPLE = RunSpec(algo="ppo", env="CartPole-v1", total_steps=1000)
EXAMPLE.params["n_steps"].integer, EXAMPLE.params["batch_size"].integer = 100, 50
_CONTINUOUS = {"sac", "td3", "ddpg"}
_ANY_ACTIONS = {"Discrete", "Box", "MultiDiscrete", "MultiBinary"}


class Sb3Runner:
    """Runs algorithms of Stable-Baselines3."""

    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="sb3",
            summary="Stable-Baselines3 on any Gymnasium env; its resume is not bit-exact",
            modes=[TRAIN, EVALUATE],
            algos=[algo_info(name) for name in ALGORITHMS],
            resumes=True,
            warm_starts=True,
            open_envs=True,
            not_ready=missing_packages("sb3", PACKAGES, EXTRA),
            uses_gpu=True,
            videos=True,
            action_spaces=sorted(_ANY_ACTIONS),
            observation_spaces=["Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict"],
            example=EXAMPLE,
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            return launch_evaluation(spec, run_dir, python)
        if spec.algo not in ALGORITHMS:
            raise NotReadyError(f"algo {not_accepted(spec.algo, ALGORITHMS)}")
        if not spec.total_steps:
            raise NotReadyError("total_steps is missing: Stable-Baselines3 has no default for it")
        spaces = check_env(python, spec, PACKAGES, EXTRA)
        if reason := unfit(spec.algo, spec.env, spaces):
            raise NotReadyError(reason, "algo")
        return Launch(command=command(python, spec), directory=run_dir, versions=spaces.versions)


def command(python: str, spec: RunSpec) -> list[str]:
    """The command line with every argument."""
    params = {name: plain_value(value) for name, value in spec.params.items()}
    return [
        *(python, "-m", LAUNCHER, spec.algo, "--env-id", spec.env),
        *("--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)),
        *("--seed", str(spec.seed if spec.HasField("seed") else DEFAULT_SEED)),
        *("--total-timesteps", str(spec.total_steps)),
        *("--params", json.dumps(params, sort_keys=True)),
    ]


def unfit(algo: str, env: str, spaces: EnvSpaces) -> str:
    """Why the algorithm cannot learn in such an env; empty when it can. Pure."""
    actions, observations = spaces.actions, spaces.observations
    if observations.kind not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict"):
        return f"Stable-Baselines3 does not take the observations of {env}: {observations.text}"
    if algo == "dqn" and actions.kind != "Discrete":
        return f"dqn needs discrete actions, and those of {env} are {actions.text}: use ppo or sac"
    if algo in _CONTINUOUS and (actions.kind != "Box" or not actions.bounded):
        return f"{algo} needs continuous, bounded actions, and those of {env} are {actions.text}: use ppo"
    if actions.kind not in _ANY_ACTIONS:
        return f"Stable-Baselines3 does not take the actions of {env}: {actions.text}"
    return ""
