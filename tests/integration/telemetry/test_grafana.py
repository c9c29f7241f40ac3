"""Every query of every dashboard and alert, asked of a real Prometheus that watches a real stack."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from runspine.embedded import Stack, running_stack
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.paths import ROOT
from tests.kit.servers.nats import free_port

DEPLOY = ROOT / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
ABSENT = "no prometheus on this machine (apt install prometheus)"
SOON = {
    "RUNSPINE_INGEST_COMMIT_SECONDS": "1",
    "RUNSPINE_JANITOR_SECONDS": "1",
    "RUNSPINE_BEAT_SECONDS": "0.5",
}
TRAINER = """
import json, os, pathlib, time
folder = pathlib.Path(os.environ["RUNSPINE_RUN_DIR"])
print("a log line", flush=True)
for step in range(40):
    print(json.dumps({"type": "step", "episode": 0, "step": step, "global_step": step, "action": 1,
                      "reward": 1.0, "terminated": False, "truncated": step == 39}), flush=True)
    time.sleep(0.05)
(folder / "step-40.pt").write_bytes(b"weights" * 1000)
print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "step-40.pt", "step": 40}), flush=True)
"""


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> Iterator[tuple[str, str]]:
    """Where each query stands, and the query."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']} {target['refId']}", target["expr"]


class Prometheus:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str, **query: str) -> dict[str, Any]:
        with self._opener.open(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
            received: dict[str, Any] = json.loads(answer.read())
            return received

    def ask(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=query)["data"]["result"]
        return found


@asynccontextmanager
async def prometheus(stack: Stack, folder: Path) -> AsyncIterator[Prometheus]:
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip(ABSENT)
    folder.mkdir()
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    job = config["scrape_configs"][0]
    # The targets are found by name in a container's network; here they are listed. All else is as deployed.
    del job["dns_sd_configs"], job["relabel_configs"]
    job["static_configs"] = [
        {"targets": [address], "labels": {"service": re.sub(r"-\d+$", "", name)}}
        for name, address in stack.metrics.items()
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(DEPLOY / "prometheus" / "alerts.yml", folder)
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)


def until_nothing_is_empty(server: Prometheus, queries: dict[str, str], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    empty = dict(queries)
    while empty:
        with contextlib.suppress(OSError):  # it is starting
            empty = {where: query for where, query in empty.items() if not server.ask(query)}
        assert time.monotonic() < deadline, f"no data for {json.dumps(empty, indent=1)}"
        time.sleep(0.5)


def train(home: Path) -> str:
    """One run to its end."""
    with Client(find_endpoint({"RUNSPINE_HOME": str(home)})) as client:
        spec = RunSpec(runner="script", command=["python", "-c", TRAINER], env="Toy-v0", algo="none")
        run = client.submit(spec).run.id
        for _ in client.watch(run, until_end=True):
            pass
        assert client.get(run).run.phase == COMPLETED
        return run


@pytest.mark.long
async def test_no_panel_is_empty_and_every_alert_knows_its_series(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip(ABSENT)
    async with (
        running_stack(tmp_path / "home", slots=1, settings=SOON) as stack,
        prometheus(stack, tmp_path / "prometheus") as server,
    ):
        run = await asyncio.to_thread(train, tmp_path / "home")
        names = {name for rule in rules() for name in re.findall(r"\b(?:runspine_\w+|up)\b", rule["expr"])}
        # What is not bounded has no limit to show: the account of nats.conf may fill the server.
        series = {f"alert: {name}": f"count({name})" for name in names}
        await asyncio.to_thread(until_nothing_is_empty, server, {**dict(panels()), **series})
        assert run not in json.dumps(server.get("/api/v1/series", **{"match[]": '{job="runspine"}'}))
        known = server.get("/api/v1/rules")["data"]["groups"][0]["rules"]
        assert {rule["name"] for rule in known} == {rule["alert"] for rule in rules()}
        assert {rule["name"]: rule["lastError"] for rule in known if rule.get("lastError")} == {}
        # On a stack that is well nothing is wrong.
        assert [rule["name"] for rule in known if rule["state"] == "firing"] == []


@pytest.mark.long
async def test_a_worker_that_is_killed_raises_an_alert(tmp_path: Path) -> None:
    """A query that can never fire would be no alert: this one is seen to."""
    async with (
        running_stack(tmp_path / "home", slots=1, only={"nats", "orchestrator"}) as stack,
        prometheus(stack, tmp_path / "prometheus") as server,
    ):
        with Client(find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})) as client:
            spec = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none")
            await asyncio.to_thread(client.submit, spec)
            silent = next(rule for rule in rules() if rule["alert"] == "RunspineWorkersSilent")
            await asyncio.to_thread(until_nothing_is_empty, server, {"silent": silent["expr"]})


def test_the_dashboards_are_those_that_are_drawn() -> None:
    import runpy

    drawn = runpy.run_path(str(DEPLOY / "grafana" / "draw.py"))["texts"]()
    assert {path.name: path.read_text() for path in DASHBOARDS} == drawn, "python deploy/grafana/draw.py"


def test_no_query_has_a_run_id_in_it() -> None:
    assert [where for where, query in panels() if "run_id" in query] == []
