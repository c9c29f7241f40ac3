"""Launch of the evaluator, for runners that can evaluate. Imports nothing heavy."""

from __future__ import annotations

import json
from pathlib import Path

from runspine.domain.defaults import DEFAULT_EPISODES
from runspine.runners import Launch
from runspine.services.worker.runners.env_check import check_env, env_kwargs
from runspine.wire.v1.spec_pb2 import RunSpec

EVALUATOR = "runspine.trainers.evaluation.evaluator"
PACKAGES = ("torch", "gymnasium", "numpy")
EXTRA = "runspine[builtin]"


def launch_evaluation(spec: RunSpec, run_dir: Path, python: str) -> Launch:
    """The launch. Raises NotReadyError when the env cannot be made; the evaluator checks the checkpoint."""
    versions = check_env(python, spec, PACKAGES, EXTRA).versions if spec.env else {}
    return Launch(command=command(python, spec), directory=run_dir, versions=versions)


def command(python: str, spec: RunSpec) -> list[str]:
    """The command line with every argument; the file itself comes with RUNSPINE_RESUME."""
    wanted = spec.evaluation
    words = [python, "-m", EVALUATOR, "--digest", wanted.digest]
    if spec.env:
        words += ["--env-id", spec.env]
    if spec.env_kwargs:
        words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    if spec.HasField("seed"):
        words += ["--seed", str(spec.seed)]
    words += ["--episodes", str(wanted.episodes or DEFAULT_EPISODES), "--batches", str(wanted.batches or 1)]
    words += [flag for flag, on in (("--repeat", wanted.repeat), ("--stochastic", wanted.stochastic)) if on]
    if wanted.video_frames:
        words += ["--video-frames", str(wanted.video_frames)]
    return words
