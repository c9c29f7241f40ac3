"""Every built-in algorithm learns, in a short training whose floor chance does not reach."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.paths import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.long
def test_the_algorithms_learn(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runspine.bench.trainers.learn", "--short", "--folder", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("reached") == 5
