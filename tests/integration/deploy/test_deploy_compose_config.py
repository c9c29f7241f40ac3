"""docker-compose.yml and every override file, as compose itself reads them. No engine is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from runspine.cli import cli
from tests.kit.paths import ROOT

OVERRIDES = sorted((ROOT / "deploy" / "compose").glob("*.yml"))


def command() -> list[str]:
    if shutil.which("docker"):
        known = subprocess.run(["docker", "compose", "version"], capture_output=True)
        if known.returncode == 0:
            return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("neither `docker compose` nor docker-compose is installed")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    return tmp_path


def config(lab: Path, *files: str) -> subprocess.CompletedProcess[str]:
    words = [word for file in ("docker-compose.yml", *files) for word in ("-f", file)]
    environment = {**os.environ, "RUNSPINE_TLS_DIR": str(lab / "tls")}
    return subprocess.run(
        [*command(), *words, "config"], cwd=lab, capture_output=True, text=True, env=environment
    )


def services(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return found


def test_without_secrets_nothing_starts_and_the_remedy_is_named(lab: Path) -> None:
    done = config(lab)
    assert done.returncode != 0
    assert "run `runspine secrets`" in done.stderr


def test_every_override_fits_the_file_it_overrides(lab: Path) -> None:
    assert CliRunner().invoke(cli, ["secrets", "--directory", str(lab)]).exit_code == 0
    plain = services(config(lab))
    merged = {path.stem: services(config(lab, f"deploy/compose/{path.name}")) for path in OVERRIDES}
    assert "weed" in merged["seaweedfs"]["s3"]["entrypoint"]
    assert merged["seaweedfs"]["bootstrap"]["environment"]["RUNSPINE_S3_USERS"] == "none"
    assert merged["gpu"]["worker"]["build"]["target"] == "worker-cuda"
    assert "outside" in merged["external-s3"]["worker"]["networks"]
    assert "edge" in merged["worker-online"]["worker"]["networks"]
    assert "edge" not in plain["worker"]["networks"]
    assert "RUNSPINE_TLS_CERT" in merged["tls"]["orchestrator"]["environment"]
    # What the main file sets for a service stays set.
    for found in merged.values():
        assert found["worker"]["cap_drop"] == plain["worker"]["cap_drop"] == ["ALL"]
        assert found["orchestrator"]["environment"]["RUNSPINE_PUBLISHED_ON"] == "127.0.0.1"
