"""The sample project with its own packages: a native one, installed by the worker, the same curve again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.record import running_record
from runspine.embedded.s3 import BUCKET
from tests.kit.paths import ROOT
from tests.kit.samples.wheels import repack_wheel
from tests.kit.stack import Shell
from tests.kit.waiting import until


def blind_worker(shell: Shell, hidden: Path) -> subprocess.Popen[bytes]:
    """A second worker, of the pool `blind`, in a mount namespace in which a folder is empty."""
    home = Home.at(Path(shell.environment["RUNSPINE_HOME"]))
    record, keys = running_record(home), load_credentials(home)
    assert record is not None
    own = {
        "RUNSPINE_NATS_URL": f"nats://{record.addresses['nats']}",
        "RUNSPINE_NATS_USER": "worker",
        "RUNSPINE_NATS_PASSWORD": keys.nats["worker"],
        "RUNSPINE_S3_ENDPOINT": record.addresses["s3"],
        "RUNSPINE_S3_ACCESS_KEY": keys.s3_access_key,
        "RUNSPINE_S3_SECRET_KEY": keys.s3_secret_key,
        "RUNSPINE_S3_BUCKET": BUCKET,
        "RUNSPINE_LOG_ROOT": keys.log_root,
        "RUNSPINE_SIGNING_KEY": keys.signing["worker"],
        "RUNSPINE_WORKER_ID": "blind",
        "RUNSPINE_WORKER_DIR": str(home.path / "blind"),
        "RUNSPINE_WORKER_POOLS": "blind",
    }
    (home.path / "blind").mkdir()
    mounted = 'mount -t tmpfs none "$0" && exec "$@"'
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mounted, hidden, sys.executable, "-m", "runspine.services.worker"],
        env={**shell.environment, **own},
    )


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_the_sample_project_trains_with_its_own_packages(tmp_path: Path) -> None:
    repack_wheel(tmp_path / "wheels", "numpy")
    shell = Shell(tmp_path / "home")
    shell.environment["RUNSPINE_PACKAGE_WHEELS"] = str(tmp_path / "wheels")
    shell.environment["RUNSPINE_PACKAGE_OFFLINE"] = "true"
    shutil.copytree(ROOT / "examples/project", tmp_path / "project")
    shell("up", "--detach", "--slots", "1")
    blind = None
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
        blind = blind_worker(shell, tmp_path / "project")
        until(lambda: "blind" in shell("workers").stdout)
        assert os.listdir(tmp_path / "project")
        assert os.listdir(f"/proc/{blind.pid}/root{tmp_path / 'project'}") == []
        elsewhere = shell.json("resubmit", run["id"], "--set", "pool=blind")["runs"][0]["run"]["id"]
        assert run["spec"]["packages"]["source"] == "requirements.txt"
        shutil.rmtree(tmp_path / "project")
        for run_id in (run["id"], elsewhere):
            shell.until(run_id, "completed", 300)
        assert shell.json("show", elsewhere)["attempts"][0]["worker_id"] == "blind"
        same = shell.json("reproduce", run["id"], "--with", elsewhere)
        assert (same["identical"], same["points"]) == (True, 20)
        provenance = shell.json("show", run["id"])["attempts"][0]["provenance"]
        assert provenance["package_count"] == 1
        assert provenance["virtualenv"] in provenance["python_path"]
        found = shell.json("reproduce", run["id"])
        assert (found["identical"], found["points"]) == (True, 20)
        assert "requirements.txt (" in shell("show", run["id"]).stdout
    finally:
        if blind is not None:
            blind.terminate()
            blind.wait()
        shell("down")
