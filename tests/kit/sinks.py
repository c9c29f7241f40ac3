"""Commands against a stack whose runs are exported, and what the exports hold."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from runspine.cli import cli
from runspine.cli import errors as edge
from tests.kit.forks.command import run_command
from tests.kit.paths import ROOT

TRAINER = ROOT / "tests" / "kit" / "trainers" / "metrics.py"
ENV = "CartPole-v1"


@dataclass
class Done:
    code: int
    stdout: str
    stderr: str


class Shell:
    """`runspine` commands against one stack: in this process, or in one of their own."""

    def __init__(self, home: Path) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("RUNSPINE_", "WANDB_"))}
        self.environment = {**clean, "RUNSPINE_HOME": str(home), "OMP_NUM_THREADS": "1"}

    def __call__(self, *arguments: str, code: int = 0) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("RUNSPINE_HOME", self.environment["RUNSPINE_HOME"])
            done = Done(edge.run(cli, arguments), out.getvalue(), err.getvalue())
        assert done.code == code, f"{arguments}: {done}"
        return done

    def apart(self, *arguments: str, **extra: str) -> None:
        done = run_command(*arguments, environment={**self.environment, **extra})
        assert done.returncode == 0, done.stderr

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        words = [sys.executable, "-m", "runspine", *arguments]
        # Its words on stderr are pytest's to show when the test fails.
        with subprocess.Popen(
            words, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def submit(self, *trainer: str, seed: int = 1, capture: str = "full", attempts: int = 1) -> str:
        settings = [f"env={ENV}", "algo=dice", f"seed={seed}", f"capture.observations={capture}"]
        settings.append(f"retry.max_attempts={attempts}")
        words = [word for setting in settings for word in ("--set", setting)]
        done = self("submit", *words, "--json", "--", sys.executable, str(TRAINER), *trainer)
        run_id: str = json.loads(done.stdout)["runs"][0]["run"]["id"]
        return run_id

    def phase(self, run_id: str) -> str:
        phase: str = self.json("show", run_id)["run"]["phase"]
        return phase

    def completed(self, run_id: str) -> str:
        self.until(lambda: self.phase(run_id) in ("completed", "failed"))
        assert self.phase(run_id) == "completed"
        return run_id

    def until(self, ready: Callable[[], object], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.2)


@dataclass(frozen=True)
class Runs:
    """Runs that have ended: every observation kept, only hashes, no episode at all."""

    whole: str
    hashed: str
    empty: str


def rows(path: Path, name: str, step: str, value: str) -> list[tuple[str, int, float]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [(row[name], int(row[step]), float(row[value])) for row in csv.DictReader(file)]


def as_float32(points: list[tuple[str, int, float]]) -> Counter[Any]:
    """What TensorBoard's format keeps of each; as a text, because NaN is not equal to itself."""
    with np.errstate(over="ignore"):
        return Counter((name, step, str(np.float32(value))) for name, step, value in points)


def accumulated(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def scalars(folder: Path) -> list[tuple[str, int, float]]:
    accumulator = accumulated(folder)
    tags = accumulator.Tags()["scalars"]
    return [(tag, event.step, event.value) for tag in tags for event in accumulator.Scalars(tag)]


def only_folder(out: Path) -> Path:
    [folder] = [path for path in out.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return folder


def committed(out: Path, target: str) -> int:
    """How far the export has come for certain."""
    found = list(out.rglob(f".runspine-{target}.json"))
    return int(json.loads(found[0].read_text())["positions"].get("metrics", 0)) if found else 0


def data_of(out: Path) -> Path:
    files = only_folder(out).iterdir()
    return next(path for path in files if "tfevents" in path.name or path.name == "metrics.csv")


def points_in(folder: Path, target: str) -> Counter[Any]:
    if target == "tensorboard":
        return as_float32(scalars(folder))
    if target == "parquet":
        table = pq.read_table(folder / "metrics.parquet", columns=["name", "step", "value"])
        return as_float32([(row["name"], row["step"], row["value"]) for row in table.to_pylist()])
    return as_float32(rows(folder / "metrics.csv", "name", "step", "value"))
