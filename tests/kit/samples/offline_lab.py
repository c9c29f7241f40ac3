"""Offline learning on a stack of its own, used through the command line in this process."""

from __future__ import annotations

import io
import json
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from runspine.cli import cli
from runspine.cli.errors import run
from runspine.rpc.telemetry_client import TelemetryClient
from tests.kit.paths import FIXTURES
from tests.kit.stack import Shell
from tests.kit.waiting import until

STYLE = FIXTURES / "corl_style"
QUICK = {"eval_every": 250, "eval_episodes": 2, "learning_rate": 0.001, "batch_size": 128}
# A few hundred updates are few for values to be right: closer to the data, and every update for the policy.
NEAR = {"td3_bc": {"alpha": 1.0, "policy_frequency": 1}}


class OfflineLab(Shell):
    """Commands, specs and series of offline runs."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.home = home
        self.environment["RUNSPINE_CORL_DIR"] = str(STYLE)

    def __call__(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """In this process, which spares an interpreter for each word; the stack itself gets its own."""
        if arguments[0] in ("up", "down"):
            return super().__call__(*arguments, code=code)
        words = [str(each) for each in arguments]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("RUNSPINE_HOME", str(self.home))
            found = run(cli, words)
        assert found == code, f"{words}: {found}\n{out.getvalue()}\n{err.getvalue()}"
        return subprocess.CompletedProcess(words, found, out.getvalue(), err.getvalue())

    def spec(self, algo: str, dataset: str, steps: int, **fields: Any) -> dict[str, Any]:
        quick = {} if algo.startswith("corl-") else {**QUICK, **NEAR.get(algo, {})}
        params = {**quick, **fields.pop("params", {})}
        named = {"runner": "corl", "algo": algo, "dataset": {"name": dataset}, "total_steps": steps}
        return {**named, "params": params, **fields}

    def submit_spec(self, spec: dict[str, Any], code: int = 0) -> str:
        path = self.home.parent / "spec.yaml"
        path.write_text(json.dumps(spec))
        done = self("submit", path, "--json", code=code)
        return str(json.loads(done.stdout)["runs"][0]["run"]["id"]) if code == 0 else done.stderr

    def end(self, run_id: str) -> dict[str, Any]:
        def look() -> Any:
            received = self.json("show", run_id)["run"]
            return received if received["phase"] in ("completed", "failed", "cancelled") else None

        ended: dict[str, Any] = until(look, 400)
        return ended

    def series(self, run_id: str, name: str) -> list[tuple[int, float]]:
        with self.client() as client:
            answers = TelemetryClient(client).batches(run_id, "metrics")
            return [
                (step, value)
                for answer in answers
                for block in answer.blocks
                if block.name == name
                for step, value in zip(block.steps, block.values, strict=True)
            ]

    @property
    def cache(self) -> Path:
        return next((self.home / "worker").glob("*")) / "datasets"
