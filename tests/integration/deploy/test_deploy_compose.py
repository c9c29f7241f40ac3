"""`make compose-test`: the image is built, all of docker-compose.yml runs, and every container restarts.

Images that cannot be pulled are stood in for (tests/kit/servers/images.py). S3 is SeaweedFS by the override
file, and Grafana is left out: for MinIO and Grafana there is nothing to make a stand-in of. Minutes, not
seconds: it runs when RUNSPINE_COMPOSE_TEST=1.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.errors import UnreachableError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import ListRequest
from tests.kit.paths import ROOT
from tests.kit.servers import images as standins
from tests.kit.servers.compose import IMAGES, Deployment, eventually, received
from tests.kit.servers.docker import Engine, NoEngine, engine

EXTRAS = "orchestrator,telemetry,artifacts,dashboard,worker,builtin,sb3,replay"
STARTED = ("worker", "telemetry", "artifacts", "janitor", "dashboard", "prometheus")
NATS, PROMETHEUS, WEED = "nats:2.15.1-alpine", IMAGES["PROMETHEUS"], IMAGES["SEAWEEDFS"]
OURS = {"orchestrator", "telemetry", "artifacts", "janitor", "worker", "dashboard"}
STREAMS = ("RUNS", "ATTEMPTS", "ARTIFACTS")
LONG = 300_000
NO_WAY = {"timed out", "Network is unreachable", "No route to host"}

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RUNSPINE_COMPOSE_TEST"), reason="make compose-test runs this"),
    pytest.mark.timeout(5400),
]


def build(docker: Engine, cache: Path) -> bool:
    """The two images of the compose file; whether they stand on a stand-in."""
    with received("the base image is there"):
        standin = standins.ensure_base(docker, cache)
    arguments: list[str] = []
    if not standin:
        _build_targets(docker, arguments)
        return False
    with received("the packages are fetched"):
        standins.download_wheels(ROOT, cache / "wheels", EXTRAS)
    with standins.index_of(cache / "wheels") as url:
        arguments = ["--network=host", f"--build-arg=PIP_FIND_LINKS={url}", "--build-arg=PIP_NO_INDEX=1"]
        arguments.append(f"--build-arg=PYTHON_IMAGE={standins.PYTHON}")
        _build_targets(docker, arguments)
    return True


def _build_targets(docker: Engine, arguments: list[str]) -> None:
    for target in ("service", "worker"):
        tag = f"runspine/{target}:dev"
        with received(f"{tag} is built"):
            docker.docker("build", *arguments, "--target", target, "-t", tag, str(ROOT), timeout=3600)


def serve(docker: Engine, cache: Path) -> None:
    """The servers of others."""
    prometheus = standins.prometheus_binary()
    if prometheus is not None:
        standins.ensure_server(docker, cache, PROMETHEUS, prometheus, ["prometheus"])
    elif not docker.has_image(PROMETHEUS):
        pytest.skip("no image of Prometheus, and no prometheus to make a stand-in of")
    standins.ensure_server(docker, cache, NATS, standins.nats_binary(), ["nats-server"])
    standins.ensure_server(docker, cache, WEED, standins.weed_binary(), ["weed"])


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("compose")
    cache = Path(os.environ.get("RUNSPINE_COMPOSE_CACHE") or folder / "cache").absolute()
    (cache / "wheels").mkdir(parents=True, exist_ok=True)
    try:
        with engine(cache / "engine") as docker:
            build(docker, cache)
            serve(docker, cache)
            place = folder / "lab"
            place.mkdir()
            made = Deployment(docker, place)
            try:
                with received("everything is up and well"):
                    made.compose("up", "-d", "--no-build", *STARTED)
                    made.until_well()
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
        with contextlib.suppress(UnreachableError):
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


def history(client: Client) -> dict[str, list[tuple[int, str, bytes, bytes]]]:
    return {
        stream: [(r.sequence, r.subject, r.commit, r.digest) for r in client.read_log(stream)]
        for stream in STREAMS
    }


def spec(steps: int) -> RunSpec:
    made = RunSpec(runner="builtin", algo="qlearning", env="FrozenLake-v1", total_steps=steps)
    made.seed = 1
    return made


def under_way(client: Client, run: str) -> bool:
    """Far enough for a checkpoint, far from its end."""
    got = client.get(run)
    assert got.run.phase != COMPLETED, "the run is too short to be interrupted"
    return got.progress.step >= got.run.spec.total_steps // 8


def restart_everything(deployment: Deployment) -> None:
    """The worker first, in the middle of its run; then the others, whether or not the run still goes on."""
    before = deployment.containers()
    assert {"nats", "s3", "prometheus"} | OURS == before.keys()
    for service in sorted(before, key=lambda name: (name != "worker", name)):
        with received(f"{service} is well again"):
            deployment.engine.docker("restart", "-t", "60", before[service])
            eventually(lambda s=service: s not in deployment.unwell(), 240, lambda: str(deployment.unwell()))  # type: ignore[misc]
    assert deployment.containers() == before
    deployment.until_well()


def test_a_run_completes_and_a_restart_of_everything_loses_nothing(deployment: Deployment) -> None:
    with deployment.client() as client:
        with received("a run completes"):
            run = client.submit(spec(20_000)).run.id
            finished(client, run)
        files = verified(client, run)
        episodes = sum(1 for _ in TelemetryClient(client).episodes(run))
        assert episodes > 100
        with received("Prometheus has seen it"):
            query = 'runspine_runs{phase="completed",env="FrozenLake-v1"} == 1'
            eventually(lambda: bool(deployment.prometheus(query)), 120)
            eventually(lambda: deployment.scraped() == OURS, 180, lambda: str(deployment.scraped()))
        before = history(client)

        long = client.submit(spec(LONG)).run.id
        eventually(lambda: under_way(client, long), 300)
        restart_everything(deployment)
        with received("the interrupted run completes"):
            finished(client, long, 1200)
        got = client.get(long)
        assert len(got.attempts) > 1
        assert got.progress.step == LONG

        after = history(client)
        for stream, records in before.items():
            assert after[stream][: len(records)] == records, f"{stream} has changed"
        assert verified(client, run) == files
        assert sum(1 for _ in TelemetryClient(client).episodes(run)) == episodes
        # Read from S3 and compared with its digest, from where S3 can be reached.
        deployment.compose(
            "run", "--rm", "cli", "artifacts", "get", f"{run}:latest", "--out", "/tmp/checkpoint"
        )
        assert len([r for page in client.pages(ListRequest()) for r in page.runs]) == 2


def test_the_log_verifies_and_the_doctor_is_content(deployment: Deployment) -> None:
    variables = {**deployment.addresses(), "RUNSPINE_TOKEN": deployment.variables["RUNSPINE_TOKEN"]}
    for command in (["events", "verify"], ["doctor", "--live"]):
        checked = subprocess.run(
            [sys.executable, "-m", "runspine", *command],
            env={**os.environ, **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_nobody_is_root_and_nothing_can_be_written(deployment: Deployment) -> None:
    for service in sorted(OURS):
        identity = deployment.containers()[service]
        assert deployment.engine.docker("exec", identity, "id", "-u").strip() == "10001"
        emitted = deployment.engine.docker("exec", identity, "touch", "/opt/runspine/x", check=False)
        assert "Read-only file system" in emitted


def test_there_is_no_way_to_the_log_and_the_objects_from_where_others_are(deployment: Deployment) -> None:
    """By address: that the name means nothing there would not keep anybody out."""
    log, objects = deployment.networks("nats")["log"], deployment.networks("s3")["objects"]
    assert deployment.connect("orchestrator", log, 4222) == "connected"
    assert deployment.connect("orchestrator", objects, 9000) == "connected"
    # Prometheus and Grafana are on these, and what reaches a published port.
    for network in ("services", "edge"):
        assert deployment.connect_on(network, log, 4222) in NO_WAY
        assert deployment.connect_on(network, objects, 9000) in NO_WAY


def test_there_is_no_way_from_a_worker_to_the_world(deployment: Deployment) -> None:
    assert set(deployment.networks("worker")) == {"log", "objects", "services"}
    # Engines give such a network no route, or drop what takes it; either way no answer comes.
    assert deployment.connect("worker", "192.0.2.1", 80) in NO_WAY


def test_a_worker_that_is_stopped_ends_by_itself(deployment: Deployment) -> None:
    """SIGTERM arrives through the container's first process, long before the engine would kill."""
    identity = deployment.containers()["worker"]
    began = time.monotonic()
    deployment.engine.docker("stop", "-t", "90", identity)
    assert time.monotonic() - began < 80
    state = json.loads(deployment.engine.docker("inspect", "-f", "{{json .State}}", identity))
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
