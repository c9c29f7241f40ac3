"""Code of runs through the command line: what was submitted is what runs, wherever the folder is by then."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.forks.command import run_command
from tests.kit.paths import ROOT
from tests.kit.stack import Shell

TRAIN = """
import json, pathlib
from pkg.model import SCALE

config = json.loads(pathlib.Path("configs/a.json").read_text())
for step in range(5):
    value = SCALE * config["lr"] * step
    print(json.dumps({"type": "metric", "name": "loss", "value": value, "step": step}), flush=True)
print("scale", SCALE, flush=True)
"""


class Project:
    """A project folder with a history, and commands started in it."""

    def __init__(self, folder: Path, shell: Shell) -> None:
        self.folder = folder
        self._shell = shell
        self.write("train.py", TRAIN)
        self.write("pkg/__init__.py", "")
        self.write("pkg/model.py", "SCALE = 1\n")
        self.write("configs/a.json", '{"lr": 0.5}')
        self.git("init", "-q", "-b", "main")
        self.git("remote", "add", "origin", "https://me:hunter22@example.org/p.git")
        self.commit()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", "-C", str(self.folder), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "a change")
        return self.git("rev-parse", "HEAD")

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {**self._shell.environment, "XDG_CACHE_HOME": str(self.folder.parent / "cache")}
        environment.pop("RUNSPINE_CODE")
        done = run_command(*words, environment=environment, directory=self.folder)
        assert done.returncode == code, f"{words}: {done.stdout}\n{done.stderr}"
        return done

    def submit(self, *words: str) -> Any:
        return json.loads(self.run("submit", "--json", *words).stdout)["runs"][0]["run"]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("stack") / "home")
    shell("up", "--detach", "--no-page", "--slots", "1")
    yield shell
    shell("down")


@pytest.fixture
def project(shell: Shell, tmp_path: Path) -> Project:
    return Project(tmp_path / "project", shell)


def scale(shell: Shell, run_id: str) -> str:
    shell.until(run_id, "completed")
    return next(line for line in shell("logs", run_id).stdout.splitlines() if "scale" in line)


def test_an_edit_after_submit_and_a_deleted_folder_change_nothing(shell: Shell, project: Project) -> None:
    project.write("pkg/model.py", "SCALE = 2\n")
    holding = project.submit("--no-code", "--", "sleep", "600")["id"]
    waiting = project.submit("--", "python", "train.py")
    project.write("pkg/model.py", "SCALE = 3\n")
    shutil.rmtree(project.folder)
    shell("cancel", holding, "--wait")
    assert "scale 2" in scale(shell, waiting["id"])
    again = shell.json("resubmit", waiting["id"])["runs"][0]["run"]
    assert again["spec"]["code"] == waiting["spec"]["code"]
    assert "scale 2" in scale(shell, again["id"])


def test_the_origin_is_on_record_and_the_files_can_be_had_back(
    shell: Shell, project: Project, tmp_path: Path
) -> None:
    project.write("pkg/model.py", "SCALE = 4\n")
    run = project.submit("--", "python", "train.py")
    origin = run["spec"]["code"]["origin"]
    assert (origin["commit"], origin["branch"]) == (project.git("rev-parse", "HEAD"), "main")
    assert (origin["remote"], origin["dirty"]) == ("https://example.org/p.git", True)
    assert "hunter22" not in shell("show", run["id"], "--json").stdout
    shown = shell("show", run["id"]).stdout
    assert f"commit {origin['commit'][:12]} on main with changes" in shown
    assert "+SCALE = 4" in shell("code", run["id"], "--diff").stdout
    assert shell("code", run["id"], "--file", "pkg/model.py").stdout == "SCALE = 4\n"
    shell("code", run["id"], "--out", tmp_path / "copy")
    assert (tmp_path / "copy/pkg/model.py").read_text() == "SCALE = 4\n"
    listed = [entry["path"] for entry in shell.json("code", run["id"])["files"]]
    assert listed == ["configs/a.json", "pkg/__init__.py", "pkg/model.py", "train.py"]


def test_a_run_file_a_grid_and_code_of_another_run(shell: Shell, project: Project) -> None:
    project.write("runs/a.yaml", "runner: script\ncommand: [python, ../train.py]\nworkdir: ..\n")
    first = project.submit("runs/a.yaml")
    assert "scale 1" in scale(shell, first["id"])
    project.write("pkg/model.py", "SCALE = 5\n")
    grid = json.loads(project.run("submit", "--json", "runs/a.yaml", "--seeds", "1..2").stdout)["runs"]
    assert len({each["run"]["spec"]["code"]["tree"] for each in grid}) == 1
    assert {scale(shell, each["run"]["id"])[-1] for each in grid} == {"5"}
    old = project.submit("runs/a.yaml", "--code-from", first["id"])
    assert "scale 1" in scale(shell, old["id"])


def test_what_is_not_in_the_code_is_refused_before_it_is_queued(project: Project) -> None:
    project.write(".gitignore", "train.py\n")
    project.git("rm", "-q", "--cached", "train.py")
    refused = project.run("submit", "--", "python", "train.py", code=2)
    assert "train.py is not in the code" in refused.stderr
    project.write(".env", "TOKEN=1")
    assert ".env may hold secrets" in project.run("submit", "--", "true", code=5).stderr


def test_a_sweep_keeps_the_code_it_began_with(shell: Shell, project: Project) -> None:
    project.write(
        "sweep.yaml",
        "runner: script\ncommand: [python, train.py, '{params.lr}']\n"
        "metric: loss\nsampler: grid\nparallel: 1\n"
        "search:\n  params.lr: {choice: [1, 2]}\n",
    )
    project.run("sweep", "sweep.yaml", "--id", "s1", "--set", "trials=1")
    project.write("pkg/model.py", "SCALE = 6\n")
    project.run("sweep", "sweep.yaml", "--id", "s1")
    runs = shell.json("ls", "--label", "sweep=s1")["runs"]
    assert len(runs) == 2
    assert {scale(shell, each["run"]["id"])[-1] for each in runs} == {"1"}


RANDOM = """
import json, os, random
random.seed(int(os.environ["RUNSPINE_SEED"]))
for step in range(30):
    value = random.random() + (step >= 20) * %s
    print(json.dumps({"type": "metric", "name": "loss", "value": value, "step": step}), flush=True)
"""


def test_a_run_is_reproduced_to_the_bit_or_the_first_step_that_differs_is_named(
    shell: Shell, project: Project
) -> None:
    project.write("train.py", RANDOM % "0")
    first = project.submit("--", "python", "train.py")["id"]
    shell.until(first, "completed")
    shutil.rmtree(project.folder)
    same = shell.json("reproduce", first)
    assert (same["identical"], same["points"]) == (True, 30)
    label = shell.json("show", same["runs"][1])["run"]["labels"]
    assert label["reproduces"] == first
    project.folder.mkdir()
    project.write("train.py", RANDOM % "0.5")
    second = project.submit("--", "python", "train.py")["id"]
    shell.until(second, "completed")
    found = shell.json("reproduce", first, "--with", second, code=1)
    assert (found["identical"], found["divergence"]["step"]) == (False, 20)
    assert (
        "different at step 20 of series loss: value"
        in shell("reproduce", first, "--with", second, code=1).stdout
    )
    differing = shell.json("diff", first, second)
    assert {"path": "train.py", "what": "changed"} in differing["files"]
    assert differing["parameters"] == differing["packages"] == []
    shown = shell("diff", first, second).stdout
    assert "-    value = random.random() + (step >= 20) * 0" in shown


def test_the_sample_project_gives_the_same_curve_where_its_folder_is_not(
    shell: Shell, project: Project, tmp_path: Path
) -> None:
    shutil.rmtree(project.folder)
    shutil.copytree(ROOT / "examples/project", project.folder)
    first = project.submit("run.yaml", "--code", ".", "--packages", "none")
    assert first["spec"]["code"]["files"] == 9
    shell.until(first["id"], "completed")
    shutil.rmtree(project.folder)
    found = shell.json("reproduce", first["id"])
    assert (found["identical"], found["points"]) == (True, 20)


@pytest.mark.long
def test_bisect_finds_a_planted_regression_in_sixteen_commits(shell: Shell, project: Project) -> None:
    commits = []
    for number in range(16):
        scale = 1 if number < 11 else 3
        project.write("pkg/model.py", f"SCALE = {scale}\nVERSION = {number}\n")
        commits.append(project.commit())
        if number == 0:
            good = project.submit("--", "python", "train.py")["id"]
    bad = project.submit("--", "python", "train.py")["id"]
    for run_id in (good, bad):
        shell.until(run_id, "completed")
    found = json.loads(project.run("bisect", good, bad, "--metric", "loss", "--json").stdout)
    assert found["commit"] == commits[11]
    assert len(found["trials"]) == 4
    assert [trial["commit"] for trial in found["trials"]] == [commits[n] for n in (7, 11, 9, 10)]
    again = json.loads(project.run("bisect", good, bad, "--metric", "loss", "--json").stdout)
    assert [trial["run"] for trial in again["trials"]] == [trial["run"] for trial in found["trials"]]
    assert project.git("worktree", "list").count("\n") == 0
    first = next(trial["run"] for trial in found["trials"] if trial["commit"] == commits[10])
    last = next(trial["run"] for trial in found["trials"] if trial["commit"] == commits[11])
    assert "+SCALE = 3" in shell("diff", first, last).stdout
    assert "name the older run first" in project.run("bisect", bad, good, "--metric", "loss", code=5).stderr


@pytest.mark.long
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_built_in_algorithms_are_bit_identical_on_the_cpu(shell: Shell, algo: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"runner: builtin\nalgo: {algo}\nenv: CartPole-v1\ntotal_steps: 4000\nseed: 3\n")
    run_id = shell.submit(file)
    shell.until(run_id, "completed", 600)
    found = shell.json("reproduce", run_id)
    assert found["identical"], found
    assert found["steps"] >= 3500
