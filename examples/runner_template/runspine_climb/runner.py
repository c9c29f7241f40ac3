"""What the runner can do, and the process that a run of it becomes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from runspine.runners import Launch, NotReadyError
from runspine.wire.v1.runner_pb2 import NUMBER, Param, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec, Value

TRAINER = Path(__file__).with_name("trainer.py")
PACKAGES = ("gymnasium", "numpy")


class ClimbRunner:
    def info(self) -> RunnerInfo:
        """Asked when a worker starts: quick, and without importing anything heavy."""
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        return RunnerInfo(
            name="climb",
            summary="hill climbing on the weights of a linear policy",
            modes=[TRAIN, EVALUATE],
            # Everything a run file may contain under `params`; anything else is refused before the launch.
            params=[
                Param(
                    name="noise",
                    type=NUMBER,
                    default=Value(number=0.2),
                    minimum=0.0,
                    help="how far the weights are moved at each try",
                )
            ],
            resumes=True,
            warm_starts=True,
            action_spaces=["Discrete"],
            observation_spaces=["Box"],
            # What is missing and how to get it; empty when the runner can run.
            not_ready=f"{', '.join(missing)} is not installed: pip install it" if missing else "",
            # What `runspine runners check` tries, and `runspine runners climb` shows.
            example=RunSpec(env="CartPole-v1", total_steps=2000),
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        """Check what can be checked before the start; NotReadyError states what is wrong and what to do."""
        if not spec.env:
            raise NotReadyError("env is missing: name one such as CartPole-v1")
        command = [python, str(TRAINER)]
        if spec.mode == EVALUATE:
            command += ["--evaluate", str(spec.evaluation.episodes), spec.evaluation.digest]
        # The rest of the spec reaches the trainer as RUNSPINE_* variables.
        return Launch(command=command, directory=run_dir)
