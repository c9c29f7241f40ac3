"""A trainer started as a worker would start it, with its telemetry kept in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.paths import ROOT


@dataclass
class Trainer:
    """One process, its run directory and what it printed."""

    process: subprocess.Popen[str]
    folder: Path

    def wait(self, seconds: float = 150.0) -> int:
        return self.process.wait(seconds)

    def succeed(self) -> Trainer:
        code = self.wait()
        assert code == 0, self.output
        return self

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    @property
    def emitted(self) -> list[dict[str, Any]]:
        lines = (self.folder / "telemetry.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def returns(self, after: int = 0) -> list[tuple[int, float]]:
        """Each episode's end and return, as metrics report it."""
        received = [line for line in self.emitted if line["type"] == "metrics"]
        name = "charts/episodic_return"
        return [(m["step"], m["values"][name]) for m in received if name in m["values"] and m["step"] > after]

    @property
    def checkpoints(self) -> list[Path]:
        found = (self.folder / "checkpoints").glob("step-*")
        whole = [path for path in found if path.suffix in (".pt", ".zip")]
        return sorted(whole, key=lambda path: int(path.stem.removeprefix("step-")))

    def until(self, ready: Callable[[], object], seconds: float = 120.0) -> None:
        """Wait for something to be so while the trainer runs."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert self.process.poll() is None, f"it ended before it could be disturbed\n{self.output}"
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.005)


def start(
    folder: Path,
    command: list[str],
    resume: Path | None = None,
    kind: str = "resume",
    variables: dict[str, str] | None = None,
) -> Trainer:
    folder.mkdir(parents=True, exist_ok=variables is not None)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RUNSPINE_RUN_ID": folder.name,
        "RUNSPINE_RUN_DIR": str(folder),
        "RUNSPINE_TELEMETRY_FD": "",
    }
    environment |= variables or {}
    if resume:
        environment |= {"RUNSPINE_RESUME": str(resume), "RUNSPINE_RESUME_KIND": kind}
    with (folder / "telemetry.jsonl").open("ab") as telemetry, (folder / "output.txt").open("wb") as output:
        environment["RUNSPINE_TELEMETRY_FD"] = str(telemetry.fileno())
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            pass_fds=(telemetry.fileno(),),
            text=True,
        )
    return Trainer(process, folder)
