"""Scripts run by the launcher as a worker would, and a check of their record by playing it again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from runspine.sdk.encoding import digest
from runspine.sdk.generator import set_generator_state
from runspine.services.worker.runners.cleanrl import HEADLESS, LAUNCHER
from tests.kit.paths import FIXTURES
from tests.kit.samples.sdk import column, of_type
from tests.kit.training import Trainer

STAND_IN = FIXTURES / "cleanrl_style"
PASSED = ("PATH", "HOME", "LANG", "TMPDIR")
_PRINTED = re.compile(r"global_step=(\d+), episodic_return=\[?\s*([-+.\deE]+)")


@dataclass
class Scripted(Trainer):
    """A script under the launcher, or alone. One that takes too long is not left behind."""

    def wait(self, seconds: float = 150.0) -> int:
        try:
            return super().wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    @property
    def printed(self) -> list[tuple[int, float]]:
        """Each episode as the script itself prints it."""
        return [(int(step), float(value)) for step, value in _PRINTED.findall(self.output)]

    def training(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in of_type(self.emitted, kind) if not line["episode_id"].startswith("eval-")]

    @property
    def steps(self) -> int:
        return sum(line["n"] for line in self.training("steps"))

    def artifacts(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in of_type(self.emitted, "artifact") if line["kind"] == kind]

    def metric(self, name: str) -> list[float]:
        return [line["values"][name] for line in of_type(self.emitted, "metrics") if name in line["values"]]


def run_script(
    folder: Path,
    script: Path,
    *arguments: str,
    python: str = sys.executable,
    checkout: Path = STAND_IN,
    recorded: bool = True,
    **variables: str,
) -> Scripted:
    """Start it with nothing of this process's environment; without Runspine on its path."""
    folder.mkdir(parents=True)
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    environment |= {**HEADLESS, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **variables}
    with (folder / "telemetry.jsonl").open("ab") as telemetry, (folder / "output.txt").open("wb") as output:
        if recorded:
            environment |= {
                "RUNSPINE_RUN_ID": folder.name,
                "RUNSPINE_RUN_DIR": str(folder),
                "RUNSPINE_TELEMETRY_FD": str(telemetry.fileno()),
            }
        process = subprocess.Popen(
            [python, str(LAUNCHER), "--path", str(checkout), str(script), *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            pass_fds=(telemetry.fileno(),),
            text=True,
        )
    return Scripted(process, folder)


def stand_in(folder: Path, name: str, *arguments: str, **how: Any) -> Scripted:
    return run_script(folder, STAND_IN / "cleanrl" / f"{name}.py", *arguments, **how)


def play_again(lines: list[dict[str, Any]]) -> int:
    """Simulate every recorded episode again, from its record alone; how many came out the same to the bit."""
    made = {line["slot"]: line for line in of_type(lines, "env")}
    blocks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in of_type(lines, "steps"):
        blocks[line["episode_id"]].append(line)
    exact = 0
    for reset in of_type(lines, "reset"):
        env = gymnasium.make(made[reset["slot"]]["env_id"], **made[reset["slot"]]["kwargs"])
        set_generator_state(env, reset["rng"])
        observation, _ = env.reset(seed=reset.get("seed"), options=reset.get("options"))
        same = [digest(observation) == digest(column(reset["obs"])[0])]
        for block in blocks[reset["episode_id"]]:
            rows = zip(column(block["action"]), column(block["obs"]), column(block["reward"]), strict=True)
            for action, seen, reward in rows:
                observation, again, *_ = env.step(action)
                same.append(np.array_equal(observation, seen) and float(again) == reward)
        env.close()
        assert all(same), f"episode {reset['episode_id']} came out otherwise"
        exact += 1
    return exact


def config_of(emitted: list[dict[str, Any]]) -> dict[str, Any]:
    (config,) = [line for line in of_type(emitted, "config") if "args" in line and "seed" in line]
    return config
