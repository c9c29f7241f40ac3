"""`make compose-test`: the image is built, all of docker-compose.yml runs, and every container restarts.

Images that cannot be pulled are stood in for (tests/tools/standins.py); S3 is SeaweedFS by the override
file, and Grafana is left out, when they are. Minutes, not seconds: it runs when RUNSPINE_COMPOSE_TEST=1.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runspine.artifact_client import ArtifactClient
from runspine.client import Client
from runspine.endpoint import Endpoint
from runspine.errors import Unreachable
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.fixtures.nats import free_port
from tests.tools import standins
from tests.tools.engine import Engine, NoEngine, engine

ROOT = Path(__file__).parents[2]
EXTRAS = "orchestrator,telemetry,artifacts,dashboard,worker,builtin,sb3,replay"
PORTS = ("ORCHESTRATOR", "TELEMETRY", "ARTIFACTS", "DASHBOARD", "GRAFANA")
FILES = ("docker-compose.yml", "deploy/compose/seaweedfs.yml")
STARTED = ("worker", "telemetry", "artifacts", "dashboard", "prometheus")
WEED = "chrislusf/seaweedfs:4.48"
OURS = {"orchestrator", "telemetry", "artifacts", "worker", "dashboard"}
STREAMS = ("RUNS", "ATTEMPTS", "ARTIFACTS")

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RUNSPINE_COMPOSE_TEST"), reason="make compose-test runs this"),
    pytest.mark.timeout(5400),
]


class Deployment:
    """docker-compose.yml in a folder of its own, as a lab would have it."""

    def __init__(self, docker: Engine, folder: Path) -> None:
        self.engine = docker
        self.folder = folder
        shutil.copy(ROOT / "docker-compose.yml", folder)
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        made = [sys.executable, "-m", "runspine", "secrets", "--directory", str(folder)]
        subprocess.run(made, check=True, cwd=ROOT, capture_output=True)
        self.ports = {name: free_port() for name in PORTS}
        with (folder / ".env").open("a") as file:
            file.write(f"COMPOSE_PROJECT_NAME=rstest{secrets.token_hex(3)}\nRUNSPINE_WORKER_SLOTS=1\n")
            file.writelines(f"RUNSPINE_{name}_PORT={port}\n" for name, port in self.ports.items())
        lines = [line.split("=", 1) for line in (folder / ".env").read_text().splitlines() if "=" in line]
        self.variables = {name: value for name, value in lines if not name.startswith("#")}

    def compose(self, *arguments: str, check: bool = True) -> str:
        files = [word for file in FILES for word in ("-f", file)]
        command = [*self.engine.compose_command, *files, *arguments]
        return self.engine.run(command, folder=self.folder, check=check)

    def containers(self) -> dict[str, str]:
        """Those that go on running: service and id."""
        found = {}
        for identity in self.compose("ps", "-q").split():
            label = '{{index .Config.Labels "com.docker.compose.service"}} {{.HostConfig.RestartPolicy.Name}}'
            service, policy = self.engine.docker("inspect", "-f", label, identity).split()
            if policy == "unless-stopped":
                found[service] = identity
        return found

    def unwell(self) -> dict[str, str]:
        troubles = {}
        for service, identity in self.containers().items():
            state = json.loads(self.engine.docker("inspect", "-f", "{{json .State}}", identity))
            health = state.get("Health", {}).get("Status", "healthy" if state["Running"] else "stopped")
            if not state["Running"] or health != "healthy":
                tail = self.engine.docker("logs", "--tail", "12", identity, check=False)
                troubles[service] = f"{state['Status']}, {health}\n{tail}"
        return troubles

    def until_well(self, seconds: float = 420.0) -> None:
        eventually(lambda: not self.unwell(), seconds, lambda: "\n".join(map(str, self.unwell().items())))

    def client(self) -> Client:
        trainer, telemetry, artifacts = (f"127.0.0.1:{self.ports[name]}" for name in PORTS[:3])
        return Client(Endpoint(trainer, telemetry, artifacts, self.variables["RUNSPINE_TOKEN"], patience=120))

    def scraped(self) -> set[str]:
        """Services that Prometheus reads."""
        return {found["metric"]["service"] for found in self.prometheus("up == 1")}

    def prometheus(self, query: str) -> list[dict[str, Any]]:
        """Asked from inside: it has no port on the host."""
        url = f"http://127.0.0.1:9090/api/v1/query?query={quote(query)}"
        said = self.engine.docker(
            "exec", self.containers()["prometheus"], "wget", "-q", "-O", "-", url, check=False
        )
        try:
            found: list[dict[str, Any]] = json.loads(said)["data"]["result"]
        except ValueError:
            return []
        return found


def eventually(
    so: Callable[[], bool], seconds: float, otherwise: Callable[[], str] = lambda: "in time"
) -> None:
    deadline = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(1.0)


def build(docker: Engine, cache: Path) -> bool:
    """The two images of the compose file; whether they stand on a stand-in."""
    standin = standins.ensure_base(docker, cache)
    arguments: list[str] = []
    if not standin:
        _build_targets(docker, arguments)
        return False
    standins.download_wheels(ROOT, cache / "wheels", EXTRAS)
    with standins.index_of(cache / "wheels") as url:
        arguments = ["--network=host", f"--build-arg=PIP_FIND_LINKS={url}", "--build-arg=PIP_NO_INDEX=1"]
        _build_targets(docker, arguments)
    return True


def _build_targets(docker: Engine, arguments: list[str]) -> None:
    for target in ("service", "worker"):
        tag = f"runspine/{target}:dev"
        docker.docker("build", *arguments, "--target", target, "-t", tag, str(ROOT), timeout=3600)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("compose")
    cache = Path(os.environ.get("RUNSPINE_COMPOSE_CACHE") or folder / "cache").absolute()
    (cache / "wheels").mkdir(parents=True, exist_ok=True)
    try:
        with engine(cache / "engine") as docker:
            build(docker, cache)
            prometheus = standins.prometheus_binary()
            if prometheus is None and not docker.has_image("prom/prometheus:v3.5.0"):
                pytest.skip("no image of Prometheus, and no prometheus to make a stand-in of")
            standins.ensure_server(
                docker, cache, "nats:2.15.1-alpine", standins.nats_binary(), ["nats-server"]
            )
            standins.ensure_server(docker, cache, WEED, standins.weed_binary(), ["weed"])
            if prometheus is not None:
                standins.ensure_server(docker, cache, "prom/prometheus:v3.5.0", prometheus, ["prometheus"])
            place = folder / "lab"
            place.mkdir()
            made = Deployment(docker, place)
            try:
                made.compose(
                    "up", "-d", "--no-build", "worker", "telemetry", "artifacts", "dashboard", "prometheus"
                )
                yield made
            finally:
                made.compose("down", "-v", "--timeout", "20", check=False)
    except NoEngine as reason:
        pytest.skip(str(reason))


def finished(client: Client, run: str, seconds: float = 600.0) -> None:
    """Polled with patience: while containers restart, or the machine is busy, a call may fail."""
    deadline = time.monotonic() + seconds
    phase: object = None
    while phase != COMPLETED:
        with contextlib.suppress(Unreachable):
            phase = client.get(run).run.phase
        assert time.monotonic() < deadline, phase
        time.sleep(1.0)


def verified(client: Client, run: str) -> dict[str, str]:
    """The run's artifacts by name, with digests, once all are verified."""
    deadline = time.monotonic() + 180
    while True:
        found = ArtifactClient(client).list(wire.ListArtifactsRequest(run=run))
        if found and all(artifact.integrity == wire.GOOD for artifact in found):
            return {f"{a.attempt} {a.name}": a.digest for a in found}
        assert time.monotonic() < deadline, found
        time.sleep(1.0)


def history(client: Client) -> dict[str, list[tuple[int, str, bytes]]]:
    return {stream: [(r.sequence, r.subject, r.data) for r in client.read_log(stream)] for stream in STREAMS}


def spec(steps: int) -> RunSpec:
    made = RunSpec(runner="builtin", algo="qlearning", env="FrozenLake-v1", total_steps=steps)
    made.seed = 1
    return made


def test_a_run_completes_and_a_restart_of_everything_loses_nothing(deployment: Deployment) -> None:
    deployment.until_well()
    with deployment.client() as client:
        run = client.submit(spec(20_000)).run.id
        finished(client, run)
        files = verified(client, run)
        episodes = sum(1 for _ in TelemetryReader(client).episodes(run))
        assert episodes > 100
        eventually(
            lambda: bool(deployment.prometheus('runspine_runs{phase="completed",env="FrozenLake-v1"} == 1')),
            120,
        )
        eventually(lambda: deployment.scraped() == OURS, 180, lambda: str(deployment.scraped()))
        before = history(client)

        # One that has to live through all of it.
        long = client.submit(spec(100_000)).run.id
        restarted = deployment.containers()
        for service, identity in sorted(restarted.items()):
            deployment.engine.docker("restart", "-t", "60", identity)
            eventually(lambda s=service: s not in deployment.unwell(), 240, lambda: str(deployment.unwell()))
        assert deployment.containers() == restarted
        assert {"nats", "s3", "worker", "prometheus"} < restarted.keys()
        deployment.until_well()
        finished(client, long, 1200)

        after = history(client)
        for stream, records in before.items():
            assert after[stream][: len(records)] == records, f"{stream} has changed"
        assert verified(client, run) == files
        assert sum(1 for _ in TelemetryReader(client).episodes(run)) == episodes
        # Read from S3 and compared with its digest, from where S3 can be reached.
        deployment.compose(
            "run", "--rm", "cli", "artifacts", "get", f"{run}:latest", "--out", "/tmp/checkpoint"
        )
        assert len([r for page in client.pages(_everything()) for r in page.runs]) == 2


def test_the_log_verifies(deployment: Deployment) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "runspine", "events", "verify"],
        env={
            **os.environ,
            "RUNSPINE_ADDRESS": f"127.0.0.1:{deployment.ports['ORCHESTRATOR']}",
            "RUNSPINE_TOKEN": deployment.variables["RUNSPINE_TOKEN"],
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_nobody_is_root_and_nothing_can_be_written(deployment: Deployment) -> None:
    for service in sorted(OURS):
        identity = deployment.containers()[service]
        assert deployment.engine.docker("exec", identity, "id", "-u").strip() == "10001"
        said = deployment.engine.docker("exec", identity, "touch", "/opt/runspine/x", check=False)
        assert "Read-only file system" in said


def test_there_is_no_way_from_the_page_to_the_log_and_from_a_worker_to_the_world(
    deployment: Deployment,
) -> None:
    containers = deployment.containers()
    for service, host, port in (("dashboard", "nats", 4222), ("worker", "192.0.2.1", 80)):
        code = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
        said = deployment.engine.docker("exec", containers[service], "python", "-c", code, check=False)
        assert "gaierror" in said or "Network is unreachable" in said, said


def test_a_worker_that_is_stopped_ends_by_itself(deployment: Deployment) -> None:
    """SIGTERM arrives through the container's first process, long before the engine would kill."""
    identity = deployment.containers()["worker"]
    began = time.monotonic()
    deployment.engine.docker("stop", "-t", "90", identity)
    assert time.monotonic() - began < 80
    state = json.loads(deployment.engine.docker("inspect", "-f", "{{json .State}}", identity))
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)


def _everything() -> Any:
    from runspine.wire.v1 import trainer_pb2

    return trainer_pb2.ListRequest()
