"""The suite that runners are put through: shipped ones, the template, and some that break a promise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.kit.paths import FIXTURES, ROOT

TEMPLATE = ROOT / "examples" / "runner_template"
STAND_IN = FIXTURES / "cleanrl_style"
CHECKS = ["describe", "refuse", "launch", "stream", "cancel", "fail", "resume", "warm start", "evaluate"]
# What a runner does not claim, and so is not asked for.
SHIPPED: dict[str, set[str]] = {
    "builtin": set(),
    "sb3": set(),
    "cleanrl": {"resume", "warm start"},
    "spade_bdi": set(),
    "corl": set(),
}


def installed(package: Path, target: Path) -> Path:
    """A package as pip would lay it out: its modules, and the entry points that make it known."""
    build = target.parent / "build"
    shutil.copytree(package, build)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(target), str(build)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def checked(*words: str, path: Path | None = None) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    found = os.pathsep.join(map(str, [ROOT, *([path] if path else [])]))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": found}
    environment["RUNSPINE_CLEANRL_DIR"] = str(STAND_IN)
    command = [sys.executable, "-m", "runspine", "runners", "check", *words, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.stdout, done.stderr
    results = json.loads(done.stdout)["results"]
    return done.returncode, {(each["runner"], each["check"]): each for each in results}


def outcomes(results: dict[tuple[str, str], dict[str, Any]], runner: str) -> dict[str, str]:
    return {check: found["outcome"] for (name, check), found in results.items() if name == runner}


def broken_package(folder: Path) -> Path:
    """Runners that each break one promise."""
    package = folder / "runspine_broken"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        dedent("""\
            from runspine.runners import Launch
            from runspine.wire.v1.runner_pb2 import RunnerInfo
            from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec

            QUIET = "print('all is well')"
            FORGETFUL = '''
            import os, runpy
            os.environ.pop("RUNSPINE_RESUME", None)
            runpy.run_module("runspine.conformance.specimen", run_name="__main__")
            '''

            class Broken:
                program = QUIET

                def info(self):
                    about = {"summary": "breaks a promise", "modes": [TRAIN], "open_params": True}
                    example = RunSpec(total_steps=200)
                    return RunnerInfo(name=self.name, example=example, **about, **self.claims)

                def launch(self, spec, run_dir, python):
                    return Launch([python, "-c", self.program], run_dir)

            class Silent(Broken):
                name, claims = "silent", {}

            class Lazy(Broken):
                name, program, claims = "lazy", FORGETFUL, {"warm_starts": True, "resumes": True}

            class Unready(Broken):
                name, claims = "unready", {"not_ready": "the moon is not full: wait"}
            """)
    )
    information = folder / "runspine_broken-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: runspine-broken\nVersion: 1\n")
    classes = "".join(f"{name.lower()} = runspine_broken:{name}\n" for name in ("Silent", "Lazy", "Unready"))
    (information / "entry_points.txt").write_text(f"[runspine.runners]\n{classes}")
    return folder


@pytest.mark.timeout(900)
@pytest.mark.long
def test_the_template_passes_and_broken_runners_fail_at_the_right_line(tmp_path: Path) -> None:
    path = broken_package(installed(TEMPLATE, tmp_path / "site"))
    good = ["climb", "script"]
    code, results = checked(*good, "silent", "lazy", "unready", path=path)
    assert code == 1
    for name in good:
        found = outcomes(results, name)
        assert list(found) == CHECKS
        assert "failed" not in found.values(), results
    assert set(outcomes(results, "climb").values()) == {"passed"}
    assert outcomes(results, "script")["resume"] == "passed"
    assert outcomes(results, "script")["evaluate"] == "skipped"

    silent = outcomes(results, "silent")
    assert (silent["launch"], silent["stream"]) == ("passed", "failed")
    assert "0 steps and 0 episodes" in results["silent", "stream"]["seen"]
    assert "runspine.wrap" in results["silent", "stream"]["remedy"]
    assert silent["cancel"] == "failed"
    assert "before it reported a step" in results["silent", "cancel"]["seen"]

    lazy = outcomes(results, "lazy")
    assert [check for check, outcome in lazy.items() if outcome == "failed"] == ["resume"]

    unready = outcomes(results, "unready")
    assert unready.pop("describe") == "failed"
    assert set(unready.values()) == {"skipped"}
    assert "the moon is not full" in results["unready", "describe"]["seen"]


@pytest.mark.timeout(900)
@pytest.mark.long
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_runner_keeps_every_promise_it_makes(name: str, tmp_path: Path) -> None:
    words = [name, "--patience", "240"]
    if name == "cleanrl":
        # The stand-in has no `ppo`, with which the runner would be tried otherwise.
        spec = {"runner": name, "algo": "tiny_reinforce", "env": "CartPole-v1", "total_steps": 2000}
        (tmp_path / "spec.yaml").write_text(json.dumps(spec))
        words += ["--spec", str(tmp_path / "spec.yaml")]
    code, results = checked(*words)
    assert code == 0, results
    skipped = {check for check, outcome in outcomes(results, name).items() if outcome == "skipped"}
    assert skipped == SHIPPED[name], results


def test_a_runner_that_nobody_has_is_named_with_the_nearest(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runspine", "runners", "check", "scrip", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 4
    assert "Did you mean 'script'" in json.loads(done.stderr.splitlines()[-1])["error"]["message"]
