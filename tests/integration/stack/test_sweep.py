"""Sweeps on a whole stack: they find something, they prune, and they survive being killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT

pytestmark = pytest.mark.long

TRAINER = """
import json, os, time
params = json.loads(os.environ["RUNSPINE_PARAMS"])
if params["x"] > 90: raise SystemExit("x is too large")
height = -((params["x"] - 3) ** 2) - 0.01 * int(os.environ["RUNSPINE_SEED"])
slow = params.get("slow_below") is not None and height < params["slow_below"]
for step in range(1, 11):
    time.sleep(params.get("pause", 0))
    print(json.dumps({"type": "metric", "name": "score", "value": height, "step": step * 10}), flush=True)
    if slow and step == 3: time.sleep(60)
"""
FILE = """
runner: script
command: [{python}, train.py]
total_steps: 100
metric: score
trials: 8
parallel: 2
startup: 3
search:
  params.x: {{float: [-10, 10]}}
"""


class Sweeps:
    """The command line, a stack, and a folder with a sweep file."""

    def __init__(self, folder: Path) -> None:
        self.environment = clean_environment(RUNSPINE_HOME=str(folder / "home"))
        self.folder = folder
        (folder / "train.py").write_text(TRAINER)
        (folder / "sweep.yaml").write_text(FILE.format(python=sys.executable))

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "runspine", *words],
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        emitted, complained = process.communicate(timeout=120)
        assert process.returncode == code, f"{words}: {process.returncode}\n{emitted}\n{complained}"
        return emitted if code == 0 else complained

    def sweep(self, name: str, *sets: str, code: int = 0) -> Any:
        return json.loads(self(*self.words(name, *sets), "--json", code=code))

    def words(self, name: str, *sets: str) -> list[str]:
        options = [word for setting in sets for word in ("--set", setting)]
        return ["sweep", str(self.folder / "sweep.yaml"), "--id", name, *options]

    def runs(self, name: str) -> list[dict[str, Any]]:
        listed = json.loads(self("ls", "--label", f"sweep={name}", "--all", "--json"))
        return [summary["run"] for summary in listed["runs"]]


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweeps]:
    sweeps = Sweeps(tmp_path_factory.mktemp("sweeps"))
    sweeps("up", "--detach", "--no-page", "--slots", "4")
    yield sweeps
    sweeps("down")


def trials_of(runs: list[dict[str, Any]]) -> Counter[str]:
    return Counter(run["spec"]["labels"]["trial"] for run in runs)


def test_a_sweep_finds_something_better_than_its_first_trial_and_is_not_done_again(sweeps: Sweeps) -> None:
    received = sweeps.sweep("climbs")  # dice follow from the id, and this one's first trial is far off
    assert [trial["state"] for trial in received["trials"]] == ["completed"] * 8
    assert received["best"]["value"] > received["trials"][0]["value"]
    assert received["best"]["value"] == max(trial["value"] for trial in received["trials"])
    assert sweeps.sweep("climbs") == received
    assert trials_of(sweeps.runs("climbs")) == Counter({str(number): 1 for number in range(8)})
    shown = json.loads(sweeps("sweep", "show", "climbs", "--json"))
    assert shown["best"]["value"] == received["best"]["value"]
    assert shown["best"]["params"]["params.x"] == received["best"]["params"]["params.x"]


@pytest.mark.long
def test_a_sweep_killed_in_the_middle_goes_on_and_doubles_nothing(sweeps: Sweeps) -> None:
    words = sweeps.words("killed", "seeds=[1, 2]", "params.pause=0.02")
    wanted = Counter({str(number): 2 for number in range(8)})
    for least in (3, 7):
        process = sweeps.start(*words)
        deadline = time.monotonic() + 60
        while len(sweeps.runs("killed")) < least:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert len(sweeps.runs("killed")) < 16
    received = json.loads(sweeps(*words, "--json"))
    assert [trial["state"] for trial in received["trials"]] == ["completed"] * 8
    assert trials_of(sweeps.runs("killed")) == wanted


@pytest.mark.long
def test_two_sweepers_of_one_sweep_share_its_trials(sweeps: Sweeps) -> None:
    words = [*sweeps.words("shared", "params.pause=0.02"), "--json"]
    both = [sweeps.start(*words) for _ in range(2)]
    received = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert received[0] == received[1]
    assert trials_of(sweeps.runs("shared")) == Counter({str(number): 1 for number in range(8)})


def test_a_bad_trial_is_pruned_and_its_run_states_why(sweeps: Sweeps) -> None:
    # Trials far from the best would take a minute each: only pruning ends them in time.
    received = sweeps.sweep(
        "pruned", "pruner=median", "sampler=grid", "parallel=1", "params.slow_below=-40",
        "search={params.x: {choice: [3, 4, 2, -9]}}",
    )  # fmt: skip
    assert [trial["state"] for trial in received["trials"]] == ["completed"] * 3 + ["pruned"]
    [run] = [run for run in sweeps.runs("pruned") if run["phase"] == "cancelled"]
    assert run["reason"].startswith("pruned by sweep pruned (median): score -144")
    assert "the best of 4 trials had" in run["reason"]


def test_a_sweep_whose_first_trials_all_fail_stops_and_reports_their_errors(sweeps: Sweeps) -> None:
    emitted = sweeps(*sweeps.words("failing", "search={params.x: {float: [91, 99]}}"), code=1)
    assert "all failed" in emitted
    assert "exit code 1" in emitted


def test_a_metric_that_does_not_exist_is_reported_with_the_nearest(sweeps: Sweeps) -> None:
    emitted = sweeps(*sweeps.words("nowhere", "metric=scor"), code=1)
    assert "Did you mean 'score'?" in emitted


def test_seeds_from_the_command_line_are_a_run_each(sweeps: Sweeps) -> None:
    received = json.loads(sweeps("submit", "--seeds", "2..4", "--json", "--", "true"))
    assert [run["run"]["spec"]["seed"] for run in received["runs"]] == [2, 3, 4]
