"""A program that is started as in an instrumented run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from runspine.instrument.startup_variables import startup_variables
from tests.kit.samples.sdk import of_type


class Program:
    """A process with the environment of an instrumented run, and its telemetry."""

    def __init__(self, folder: Path, *command: str, instrumented: bool = True, **variables: str) -> None:
        self.telemetry = folder / "telemetry.jsonl"
        self.output = folder / "output.txt"
        with self.telemetry.open("ab") as telemetry, self.output.open("ab") as output:
            environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **variables}
            if instrumented:
                environment |= startup_variables("native", variables.get("PYTHONPATH", ""))
                environment |= {"RUNSPINE_RUN_ID": "01TEST", "RUNSPINE_RUN_DIR": str(folder)}
                environment["RUNSPINE_TELEMETRY_FD"] = str(telemetry.fileno())
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=output,
                pass_fds=(telemetry.fileno(),),
            )

    def wait(self) -> int:
        return self.process.wait(120)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.telemetry.read_bytes().splitlines()]

    @property
    def steps(self) -> int:
        return sum(line["n"] for line in of_type(self.lines, "steps"))
