"""`runspine doctor --live` on a deployment that runs: what is well, what is not, and what helps."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runspine.doctor.deployment import check_disk, check_scrub, check_workers
from runspine.embedded import running_stack
from runspine.rpc.endpoint import Endpoint, find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.artifacts_pb2 import Disk, GetUsageResponse, ScrubStatus
from runspine.wire.v1.run_pb2 import MachineStatus, Worker
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.servers.nats import free_port

NOW = 2_000_000_000.0
PARTS = {"nats", "s3", "orchestrator", "telemetry", "artifacts"}


def doctor(**variables: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Its exit code, and its checks by name."""
    done = subprocess.run(
        [sys.executable, "-m", "runspine", "doctor", "--live", "--json"],
        env=clean_environment(**variables),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for check in json.loads(done.stdout)["checks"]:
        found.setdefault(check["name"], []).append(check)
    return done.returncode, found


def addresses(endpoint: Endpoint) -> dict[str, str]:
    return {
        "RUNSPINE_ADDRESS": endpoint.trainer,
        "RUNSPINE_TELEMETRY_ADDRESS": endpoint.telemetry,
        "RUNSPINE_ARTIFACTS_ADDRESS": endpoint.artifacts,
    }


def levels(found: dict[str, list[dict[str, Any]]]) -> dict[str, set[str]]:
    return {name: {check["level"] for check in checks} for name, checks in found.items()}


@pytest.mark.long
async def test_a_deployment_is_looked_at_from_outside(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only=PARTS):
        endpoint = find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})
        spec = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none", pool="far")
        with Client(endpoint) as client:
            await asyncio.to_thread(client.submit, spec)

        code, found = await asyncio.to_thread(doctor, **addresses(endpoint), RUNSPINE_TOKEN=endpoint.token)
        assert code == 0, found
        warned = {name for name, level in levels(found).items() if level != {"ok"}}
        assert warned == {"workers", "runs"}
        asked = {"connection", "orchestrator", "log", "telemetry", "artifacts", "objects", "disk"}
        assert asked < found.keys()
        assert "every link of the chain checked" in found["log"][0]["says"]
        assert "no worker that is online serves far" in found["runs"][0]["says"]

        code, found = await asyncio.to_thread(doctor, **addresses(endpoint), RUNSPINE_TOKEN="guess")
        assert (code, found["orchestrator"][0]["level"]) == (1, "fail")
        assert "token" in found["orchestrator"][0]["says"]

        # One service is away: the others are looked at all the same.
        away = {**addresses(endpoint), "RUNSPINE_ARTIFACTS_ADDRESS": f"127.0.0.1:{free_port()}"}
        code, found = await asyncio.to_thread(doctor, **away, RUNSPINE_TOKEN=endpoint.token)
        assert code == 1
        assert found["artifacts"][0]["level"] == "fail"
        assert {found[name][0]["level"] for name in ("log", "telemetry")} == {"ok"}


def test_a_silent_worker_and_one_of_another_version_are_named() -> None:
    fresh = Worker(id="a", version="1", online=True, slots=4, last_heard=int((NOW - 2) * 1e6), running=["r"])
    silent = Worker(id="b", host="h", version="2", online=True, last_heard=int((NOW - 90) * 1e6))
    first, *others = check_workers([fresh, silent, Worker(id="c", version="0")], NOW)
    assert (first.level, first.summary) == ("ok", "2 online, 1 of 4 slots busy")
    assert [(check.level, check.summary) for check in others] == [
        ("warn", "b on h sent no heartbeat for 90 s"),
        ("warn", "several versions: 1, 2"),
    ]
    [alone] = check_workers([], NOW)
    assert alone.level == "warn"


def test_a_worker_whose_disk_is_nearly_full_is_named() -> None:
    def worker(name: str, free: int) -> Worker:
        machine = MachineStatus(disk_total=100 * 10**9, disk_free=free, run_folders=1, run_folder_bytes=10**9)
        return Worker(id=name, online=True, last_heard=int(NOW * 1e6), machine=machine)

    unknown = Worker(id="c", online=True, last_heard=int(NOW * 1e6))
    _, low = check_workers([worker("a", 50 * 10**9), worker("b", 5 * 10**9), unknown], NOW)
    assert low.level == "warn"
    assert low.summary == "b: 5.0 GB of 100 GB free, 1 run directory, 1.0 GB"


def test_a_full_disk_and_a_scrub_that_stands_still_are_named() -> None:
    [low] = check_disk(GetUsageResponse(disk=Disk(total=100 << 30, free=5 << 30)))
    assert (low.level, low.summary) == ("warn", "5.0 GiB free below S3")
    [fine] = check_disk(GetUsageResponse(disk=Disk(total=100 << 30, free=50 << 30)))
    assert fine.level == "ok"
    # A bucket elsewhere reports no disk.
    assert list(check_disk(GetUsageResponse())) == []
    [late] = check_scrub(GetUsageResponse(scrub=ScrubStatus(finished_at=int((NOW - 5 * 86_400) * 1e6))), NOW)
    assert (late.level, late.summary) == ("warn", "all objects were last verified 5 days ago")
    assert list(check_scrub(GetUsageResponse(), NOW)) == []
