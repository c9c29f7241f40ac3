"""`runspine train`: what `make run` does, as a user sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT

HELLO = ROOT / "examples" / "hello.yaml"


def train(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runspine", "train", str(HELLO), "--home", str(home), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env=clean_environment(),
        cwd=ROOT,
    )


def left_running(home: Path) -> list[str]:
    """Processes that were started with this home."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("RUNSPINE_WORKER_DIR", ""), process.cwd()]
        except psutil.Error:
            continue
        if any(str(home) in word for word in words):
            found.append(f"{process.pid} {words}")
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_is_trained_with_a_stack_of_its_own_and_nothing_is_left(tmp_path: Path) -> None:
    home = tmp_path / "var"
    done = train(home, "--set", 'command=[python, hello_trainer.py, --seconds, "6"]')
    assert done.returncode == 0, done.stderr
    for words in (
        "✓ orchestrator",
        "attempt 1 runs on",
        "completed",
        "return, mean of the last",
        "runspine show",
    ):
        assert words in done.stdout
    assert left_running(home) == []
    again = train(home, "--json", "--set", "command=[python, -c, 'raise SystemExit(3)']")
    assert again.returncode == 1
    last = json.loads(again.stdout.splitlines()[-1])
    assert last["run"]["phase"] == "failed"
    assert left_running(home) == []
