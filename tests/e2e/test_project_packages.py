"""The sample project with its own packages: a native one, installed by the worker, the same curve again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.paths import ROOT
from tests.kit.samples.wheels import repack_wheel
from tests.kit.stack import Shell


@pytest.mark.long
def test_the_sample_project_trains_with_its_own_packages(tmp_path: Path) -> None:
    repack_wheel(tmp_path / "wheels", "numpy")
    shell = Shell(tmp_path / "home")
    shell.environment["RUNSPINE_PACKAGE_WHEELS"] = str(tmp_path / "wheels")
    shell.environment["RUNSPINE_PACKAGE_OFFLINE"] = "true"
    shutil.copytree(ROOT / "examples/project", tmp_path / "project")
    shell("up", "--detach", "--slots", "1")
    try:
        command = [sys.executable, "-m", "runspine", "submit", "--json", "run.yaml", "--code", "."]
        done = subprocess.run(
            command,
            cwd=tmp_path / "project",
            env={**shell.environment, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            check=True,
            capture_output=True,
            text=True,
        )
        run = json.loads(done.stdout)["runs"][0]["run"]
        assert run["spec"]["packages"]["source"] == "requirements.txt"
        shutil.rmtree(tmp_path / "project")
        shell.until(run["id"], "completed")
        provenance = shell.json("show", run["id"])["attempts"][0]["provenance"]
        assert provenance["package_count"] == 1
        assert provenance["virtualenv"] in provenance["python_path"]
        found = shell.json("reproduce", run["id"])
        assert (found["identical"], found["points"]) == (True, 20)
        assert "requirements.txt (" in shell("show", run["id"]).stdout
    finally:
        shell("down")
