"""Services of an older commit and of this one on one log, in the midst of an update, both ways."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, Phase
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.kit.releases.older import missing, older_python, services_of
from tests.kit.servers.nats import NatsServer, free_port

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

# Reports each of its steps, and lives for some seconds.
TRAINER = """
import json, time
for step in range(40):
    print(json.dumps({"type": "metric", "name": "loss", "value": step, "step": step}), flush=True)
    time.sleep(0.1)
"""
RUNS = 6


@dataclass
class Releases:
    """Starts services of either release on one nats-server."""

    nats: NatsServer
    folder: Path
    pythons: dict[str, Path]
    packages: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def service(self, release: str, name: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
        package = self.packages.setdefault(release, services_of(self.pythons[release]))
        environment = {
            **{kept: os.environ[kept] for kept in ("PATH", "HOME", "LANG") if kept in os.environ},
            "RUNSPINE_NATS_URL": self.nats.url,
            "RUNSPINE_IGNORE_SNAPSHOT": "true",
            **settings,
        }
        log = self.folder / f"{release}-{name}-{time.monotonic_ns()}.log"
        command = [str(self.pythons[release]), "-P", "-m", f"{package}.{name}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=output, stderr=output
            )
        try:
            yield process
            assert process.poll() is None, log.read_text()[-3000:]
        finally:
            process.terminate()
            process.wait(60)

    @contextmanager
    def orchestrator(self, release: str) -> Iterator[TrainerServiceStub]:
        address = f"127.0.0.1:{free_port()}"
        with (
            self.service(release, "orchestrator", RUNSPINE_GRPC_ADDRESS=address),
            grpc.insecure_channel(address) as channel,
        ):
            grpc.channel_ready_future(channel).result(60)
            yield TrainerServiceStub(channel)

    @contextmanager
    def worker(self, release: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
        own = {"RUNSPINE_WORKER_ID": name, "RUNSPINE_WORKER_DIR": str(self.folder / name)}
        with self.service(release, "worker", RUNSPINE_WORKER_SLOTS="2", **own) as process:
            yield process


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"older": older_python(tmp_path_factory.mktemp("older")), "newer": Path(sys.executable)}


@pytest.fixture
def releases(pythons: dict[str, Path], nats_server: NatsServer, tmp_path: Path) -> Releases:
    return Releases(nats_server, tmp_path, pythons)


def submit(stub: TrainerServiceStub, number: int) -> str:
    spec = RunSpec(runner="script", command=[sys.executable, "-S", "-c", TRAINER])
    run_id: str = stub.Submit(wire.SubmitRequest(spec=spec, idempotency_key=f"key-{number}")).run.id
    return run_id


def until(stub: TrainerServiceStub, run_ids: list[str], phase: int, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while True:
        found = [stub.Get(wire.GetRequest(run_id=run_id)).run for run_id in run_ids]
        if all(run.phase == phase for run in found):
            return
        shown = [(Phase.Name(run.phase), run.reason) for run in found]
        assert time.monotonic() < deadline, shown
        time.sleep(0.3)


@pytest.mark.parametrize(("deciding", "training"), [("older", "newer"), ("newer", "older")])
def test_an_orchestrator_of_one_release_and_a_worker_of_the_other_finish_runs(
    releases: Releases, deciding: str, training: str
) -> None:
    with releases.orchestrator(deciding) as stub, releases.worker(training, "w1"):
        ids = [submit(stub, number) for number in range(3)]
        until(stub, ids[:2], COMPLETED)
        # Stopped by the other release.
        until(stub, ids[2:], COMPLETED)
        last = submit(stub, 9)
        stub.Cancel(wire.CancelRequest(run_id=last))
        until(stub, [last], CANCELLED)
        for run_id in ids:
            found = stub.Get(wire.GetRequest(run_id=run_id))
            assert [attempt.number for attempt in found.attempts] == [1]
            assert found.run.counts.metrics == 40, found


def test_orchestrators_and_workers_of_both_releases_serve_one_log(releases: Releases) -> None:
    with ExitStack() as opened:
        stubs = [opened.enter_context(releases.orchestrator(release)) for release in ("older", "newer")]
        for number, release in enumerate(("older", "newer")):
            opened.enter_context(releases.worker(release, f"w{number}"))
        ids = [submit(stubs[number % 2], number) for number in range(RUNS)]
        # The same key at the other one is the same run.
        assert ids == [submit(stubs[(number + 1) % 2], number) for number in range(RUNS)]
        for stub in stubs:
            until(stub, ids, COMPLETED)
            attempts = [stub.Get(wire.GetRequest(run_id=run_id)).run.attempt for run_id in ids]
            assert attempts == [1] * RUNS


def test_an_update_and_the_way_back_keep_runs_and_their_states(releases: Releases) -> None:
    seen: list[list[int]] = []
    ids: list[str] = []
    for number, release in enumerate(("older", "newer", "older")):
        with releases.orchestrator(release) as stub, releases.worker(release, "w1"):
            ids.append(submit(stub, number))
            until(stub, ids, COMPLETED)
            seen.append([stub.Get(wire.GetRequest(run_id=run_id)).run.attempt for run_id in ids])
    assert seen == [[1], [1, 1], [1, 1, 1]]
