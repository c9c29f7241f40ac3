"""What others keep of a trainer: one scalar a step, each tool in a process of its own.

`python -m bench.telemetry_peers TOOL SECONDS FOLDER` prints how many scalars it kept, and in how long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

Say = Callable[[int, float], None]


class Kept(NamedTuple):
    scalars: int
    # From the first scalar until the tool has closed its files.
    seconds: float

    @property
    def rate(self) -> float:
        return self.scalars / self.seconds


@contextmanager
def _wandb(folder: Path) -> Iterator[Say]:
    import wandb

    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
    run = wandb.init(mode="offline", dir=str(folder), project="bench", settings=settings)
    yield lambda _, reward: run.log({"reward": reward})
    run.finish()


@contextmanager
def _tensorboard(folder: Path) -> Iterator[Say]:
    from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

    writer = SummaryWriter(str(folder))
    yield lambda at, reward: writer.add_scalar("reward", reward, at)
    writer.close()


@contextmanager
def _mlflow(folder: Path) -> Iterator[Say]:
    import mlflow  # type: ignore[import-not-found,unused-ignore]

    mlflow.set_tracking_uri(folder.as_uri())
    mlflow.set_experiment("bench")
    with mlflow.start_run():

        def say(at: int, reward: float) -> None:
            mlflow.log_metric("reward", reward, step=at)

        yield say


TOOLS = {"wandb offline": _wandb, "tensorboardX": _tensorboard, "MLflow file store": _mlflow}


def keep(tool: str, seconds: float, folder: Path) -> Kept:
    with TOOLS[tool](folder) as say:
        say(0, 1.0)
        began, at = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            for _ in range(10):
                at += 1
                say(at, 1.0)
    return Kept(at, time.perf_counter() - began)


def measure(tool: str, seconds: float, folder: Path) -> Kept | str:
    """In a process of its own; or why it could not be measured."""
    folder.mkdir(parents=True, exist_ok=True)
    # What these tools would say to a network stays here; W&B and MLflow ask before they look for one.
    quiet = {
        "WANDB_MODE": "offline",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "bench.telemetry_peers", tool, str(seconds), str(folder)]
    done = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    return Kept(*json.loads(done.stdout.strip().splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(keep(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))))
