"""A bounded part of the search, the seeds that once failed, and proof that the simulator finds known faults.

Each search is a process of its own, because the order of sets of text is part of a schedule.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.kit.paths import ROOT
from tests.simulation.campaign import KINDS, kept_seeds
from tests.simulation.plan import Plan

SEARCH_SECONDS = 20
# The same schedules in every run, as many as there is time for; `make nightly` searches new ones.
FIRST_SEED = 1_000_000
# Its schedules are short.
SHORT_SEED = 7


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


def test_no_schedule_breaks_a_promise() -> None:
    found = simulation("--seconds", str(SEARCH_SECONDS), "--first", str(FIRST_SEED), "--jobs", "1")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "0 violations" in found.stdout


def test_one_seed_is_one_schedule() -> None:
    """Two processes replay a schedule of each kind: a digest is that of every turn and every message."""
    assert Plan("log", SHORT_SEED).short
    replays = [simulation("--seed", str(SHORT_SEED)) for _ in range(2)]
    assert replays[0].returncode == 0, replays[0].stdout + replays[0].stderr
    assert replays[0].stdout == replays[1].stdout
    digests = re.findall(r"callbacks, ([0-9a-f]{32})$", replays[0].stdout, re.MULTILINE)
    assert len(set(digests)) == len(KINDS)


def test_schedules_that_once_failed() -> None:
    found = simulation("--kept")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("virtual s") == len(list(kept_seeds()))


# `make nightly` looks for each of the known faults.
@pytest.mark.parametrize(("kind", "fault"), [("log", "reads-that-lag"), ("telemetry", "file-before-steps")])
def test_a_fault_that_is_switched_back_on_is_found(kind: str, fault: str) -> None:
    found = simulation("--kind", kind, "--inject", fault, "--seconds", "30", "--until-found")
    assert found.returncode == 1, found.stdout + found.stderr
    assert f"FAILED: python -m tests.simulation --kind {kind} --seed" in found.stdout
    kept = re.search(r"^kept_seeds.txt: (.* only=.*?): ", found.stdout, re.MULTILINE)
    assert kept, found.stdout
    smaller = simulation("--plan", kept[1], "--inject", fault)
    assert smaller.returncode == 1, smaller.stdout
    assert simulation("--plan", kept[1]).returncode == 0
