"""`runspine doctor --live` on a deployment that runs: what is well, what is not, and what helps."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from runspine.checkup.deployment import of_disk, of_scrub, of_workers
from runspine.client import Client
from runspine.embedded import running_stack
from runspine.endpoint import Endpoint, find_endpoint
from runspine.wire.v1.artifacts_pb2 import Disk, GetUsageResponse, ScrubStatus
from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.fixtures.environment import clean_environment
from tests.fixtures.nats import free_port
from tests.fixtures.services import ROOT

NOW = 2_000_000_000.0
PARTS = {"nats", "s3", "orchestrator", "telemetry", "artifacts"}


def doctor(**variables: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Its exit code, and what it says of each thing."""
    done = subprocess.run(
        [sys.executable, "-m", "runspine", "doctor", "--live", "--json"],
        env=clean_environment(**variables),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    told: dict[str, list[dict[str, Any]]] = {}
    for check in json.loads(done.stdout)["checks"]:
        told.setdefault(check["name"], []).append(check)
    return done.returncode, told


def addresses(endpoint: Endpoint) -> dict[str, str]:
    return {
        "RUNSPINE_ADDRESS": endpoint.trainer,
        "RUNSPINE_TELEMETRY_ADDRESS": endpoint.telemetry,
        "RUNSPINE_ARTIFACTS_ADDRESS": endpoint.artifacts,
    }


def levels(told: dict[str, list[dict[str, Any]]]) -> dict[str, set[str]]:
    return {name: {check["level"] for check in checks} for name, checks in told.items()}


async def test_a_deployment_is_looked_at_from_outside(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only=PARTS):
        endpoint = find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})
        spec = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none", pool="far")
        with Client(endpoint) as client:
            await asyncio.to_thread(client.submit, spec)

        code, told = await asyncio.to_thread(doctor, **addresses(endpoint), RUNSPINE_TOKEN=endpoint.token)
        assert code == 0, told
        warned = {name for name, level in levels(told).items() if level != {"ok"}}
        assert warned == {"workers", "runs"}
        asked = {"connection", "orchestrator", "log", "telemetry", "artifacts", "objects", "disk"}
        assert asked < told.keys()
        assert "every link of the chain checked" in told["log"][0]["says"]
        assert "no worker that is online serves far" in told["runs"][0]["says"]

        code, told = await asyncio.to_thread(doctor, **addresses(endpoint), RUNSPINE_TOKEN="guess")
        assert (code, told["orchestrator"][0]["level"]) == (1, "fail")
        assert "token" in told["orchestrator"][0]["says"]

        # One service is away: the others are looked at all the same.
        away = {**addresses(endpoint), "RUNSPINE_ARTIFACTS_ADDRESS": f"127.0.0.1:{free_port()}"}
        code, told = await asyncio.to_thread(doctor, **away, RUNSPINE_TOKEN=endpoint.token)
        assert code == 1
        assert told["artifacts"][0]["level"] == "fail"
        assert {told[name][0]["level"] for name in ("log", "telemetry")} == {"ok"}


def test_a_silent_worker_and_one_of_another_version_are_named() -> None:
    fresh = Worker(id="a", version="1", online=True, slots=4, last_heard=int((NOW - 2) * 1e6), running=["r"])
    silent = Worker(id="b", host="h", version="2", online=True, last_heard=int((NOW - 90) * 1e6))
    first, *others = of_workers([fresh, silent, Worker(id="c", version="0")], NOW)
    assert (first.level, first.says) == ("ok", "2 online, 1 of 4 slots busy")
    assert [(check.level, check.says) for check in others] == [
        ("warn", "b on h is silent for 90 s"),
        ("warn", "several versions: 1, 2"),
    ]
    [alone] = of_workers([], NOW)
    assert alone.level == "warn"


def test_a_full_disk_and_a_scrub_that_stands_still_are_named() -> None:
    [low] = of_disk(GetUsageResponse(disk=Disk(total=100 << 30, free=5 << 30)))
    assert (low.level, low.says) == ("warn", "5.0 GiB free below S3")
    [fine] = of_disk(GetUsageResponse(disk=Disk(total=100 << 30, free=50 << 30)))
    assert fine.level == "ok"
    # A bucket elsewhere says nothing of its disk.
    assert list(of_disk(GetUsageResponse())) == []
    [late] = of_scrub(GetUsageResponse(scrub=ScrubStatus(finished_at=int((NOW - 5 * 86_400) * 1e6))), NOW)
    assert (late.level, late.says) == ("warn", "everything was last read back 5 days ago")
    assert list(of_scrub(GetUsageResponse(), NOW)) == []
