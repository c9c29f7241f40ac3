"""Machines that join a stack with one line, in networks and file systems of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.cli import SECTIONS
from tests.kit.paths import ROOT
from tests.kit.servers.network import missing

CUT_SECONDS = os.environ.get("RUNSPINE_TEST_CUT_SECONDS", "90")


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.skipif(
    not any("hosts" in commands for commands in SECTIONS.values()), reason="`hosts` is not a command yet"
)
def test_two_machines_join_train_survive_a_cut_and_a_reboot_and_are_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kit.servers.joined_hosts", str(tmp_path), CUT_SECONDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-6000:]
    report = json.loads(done.stdout)
    assert all(len(typed) <= 3 for typed in report["typed"].values())
    assert len(report["h2: attempts"]) == 2
    assert report["h2: resumed at"][-1] > 0
