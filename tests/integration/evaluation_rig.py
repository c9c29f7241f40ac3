"""A stack of its own for evaluations, spoken to through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runspine.client import Client
from runspine.endpoint import find_endpoint
from tests.fixtures.environment import clean_environment

ROOT = Path(__file__).parents[2]


class Shell:
    def __init__(self, home: Path) -> None:
        self.environment = clean_environment(RUNSPINE_HOME=str(home), OMP_NUM_THREADS="1")

    def __call__(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "runspine", *map(str, arguments)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).stdout)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "runspine", *map(str, arguments)]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True)

    def evaluate(self, *arguments: object, code: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Every batch, and what was said at the end."""
        lines = [
            json.loads(line) for line in self("eval", *arguments, "--json", code=code).stdout.splitlines()
        ]
        return [line["score"] for line in lines if "score" in line], lines[-1]

    def client(self) -> Client:
        return Client(find_endpoint(self.environment))


def until(ready: Callable[[], Any], seconds: float = 120.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)
    return found
