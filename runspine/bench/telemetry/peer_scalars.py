"""Measures other tools: one scalar per step, each tool in a separate process.

`python peer_scalars.py TOOL SECONDS FOLDER` prints how many scalars it kept, in how long, and in how
many bytes. It imports nothing of Runspine: some peers need their own virtualenv (bench/peers.txt).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

LogScalar = Callable[[int, float], None]


class KeptScalars(NamedTuple):
    """Scalars that a tool has stored."""

    scalars: int
    # From the first scalar until the tool has closed its files.
    seconds: float
    bytes: int

    @property
    def rate(self) -> float:
        return self.scalars / self.seconds


@contextmanager
def _wandb(folder: Path) -> Iterator[LogScalar]:
    import wandb

    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
    run = wandb.init(mode="offline", dir=str(folder), project="bench", settings=settings)
    yield lambda _, reward: run.log({"reward": reward})
    run.finish()


@contextmanager
def _tensorboard(folder: Path) -> Iterator[LogScalar]:
    from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

    writer = SummaryWriter(str(folder))
    yield lambda at, reward: writer.add_scalar("reward", reward, at)
    writer.close()


@contextmanager
def _mlflow(folder: Path) -> Iterator[LogScalar]:
    import mlflow  # type: ignore[import-not-found,unused-ignore]

    mlflow.set_tracking_uri(folder.as_uri())
    mlflow.set_experiment("bench")
    with mlflow.start_run():

        def log(at: int, reward: float) -> None:
            mlflow.log_metric("reward", reward, step=at)

        yield log


@contextmanager
def _aim(folder: Path) -> Iterator[LogScalar]:
    from aim import Run  # type: ignore[import-not-found,unused-ignore]

    run = Run(repo=str(folder), system_tracking_interval=None, capture_terminal_logs=False)
    yield lambda at, reward: run.track(reward, name="reward", step=at)
    run.close()


@contextmanager
def _trackio(folder: Path) -> Iterator[LogScalar]:
    # It reads its folder at import.
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio  # type: ignore[import-not-found,unused-ignore]

    with redirect_stdout(sys.stderr):
        trackio.init(project="bench")
    yield lambda at, reward: trackio.log({"reward": reward}, step=at)
    with redirect_stdout(sys.stderr):
        trackio.finish()


TOOLS = {
    "wandb offline": _wandb,
    "tensorboardX": _tensorboard,
    "MLflow file store": _mlflow,
    "Aim": _aim,
    "trackio": _trackio,
}
OWN_VIRTUALENV = ("Aim", "trackio")
NOT_CONFIGURED = "no Python with it is named (--peers or RUNSPINE_BENCH_PEERS)"


def keep(tool: str, seconds: float, folder: Path) -> KeptScalars:
    with TOOLS[tool](folder) as log:
        log(0, 1.0)
        began, at = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            for _ in range(10):
                at += 1
                log(at, 1.0)
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return KeptScalars(at, seconds, size)


def measure(tool: str, seconds: float, folder: Path, peers: str = "") -> KeptScalars | str:
    """Measure a tool in a separate process; or the reason why that failed. `peers` is the peers' Python."""
    if tool in OWN_VIRTUALENV and not peers:
        return NOT_CONFIGURED
    folder.mkdir(parents=True, exist_ok=True)
    # No network access: W&B and MLflow check these variables first.
    quiet = {
        "WANDB_MODE": "offline",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "DO_NOT_TRACK": "1",
        "AIM_TELEMETRY_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
    }
    python = peers if tool in OWN_VIRTUALENV else sys.executable
    command = [python, "-P", "-W", "ignore", __file__, tool, str(seconds), str(folder)]
    done = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it ended without output"])[-1]
    return KeptScalars(*json.loads(done.stdout.strip().splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(keep(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))))
