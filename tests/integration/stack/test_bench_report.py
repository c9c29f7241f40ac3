"""`runspine bench report` in its smallest form: real servers, every part, one report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.bench.report.parts import PARTS
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT


def bench(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runspine", "bench", "report", "--size", "tiny", "--out", str(out)]
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT, env=clean_environment(), capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.long
def test_one_part_is_measured_and_the_report_lists_which_are_missing(tmp_path: Path) -> None:
    done = bench(tmp_path, "control")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.md").read_text()
    assert "| bare nats-server, one by one |" in text
    assert "no Python with ray[default] is named" in text
    assert "| Telemetry | | not measured |" in text
    received = json.loads((tmp_path / "report.json").read_text())
    known = {each["target"]: each["met"] for each in received["targets"]}
    assert known["submit → RUNNING on an idle worker, p99"] is not None
    assert known["admissions"] is not None


def test_a_part_that_is_not_known_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = bench(tmp_path, "kontrol")
    assert done.returncode == 2
    assert "unknown part 'kontrol'; known parts: control, " in done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_part_is_measured_from_scratch_into_one_report(tmp_path: Path) -> None:
    done = bench(tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    received = json.loads((tmp_path / "report.json").read_text())
    assert [part["part"] for part in received["parts"]] == list(PARTS)
    assert all(part["figures"] for part in received["parts"])
    for picture in ("kept", "cpu", "rest", "open", "facts", "growth"):
        assert (tmp_path / f"{picture}.png").is_file(), picture
