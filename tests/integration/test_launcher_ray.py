"""The Ray launcher on a real cluster of two nodes: runs placed by resources, one node killed, each ends once.

Ray is large and has to match the cluster, so it is not in the development install. Name a Python that has
ray and runspine in RUNSPINE_TEST_RAY_PYTHON to run this; docs/howto/ray.md shows how to make one.
RUNSPINE_TEST_RAY_RUNS says how many runs (20).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from runspine.client import Client
from runspine.embedded import Stack, running_stack
from runspine.endpoint import find_endpoint
from runspine.wire.v1.facts_pb2 import EXITED
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import Limits, RunSpec
from tests.fixtures.nats import free_port
from tests.integration.test_launcher import worker_variables

PYTHON = os.environ.get("RUNSPINE_TEST_RAY_PYTHON", "")
RUNS = int(os.environ.get("RUNSPINE_TEST_RAY_RUNS", "20"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not PYTHON, reason="RUNSPINE_TEST_RAY_PYTHON names no Python that has ray"),
]
ROOT = Path(__file__).parents[2]
TRAINER = """
import json, sys, time
for step in range(int(sys.argv[1])):
    print(json.dumps({"type": "metric", "name": "loss", "value": step, "step": step}), flush=True)
    time.sleep(0.1)
"""


# Away from the ports that tests and stacks choose theirs from.
WORKER_PORTS = ("--min-worker-port=23000", "--max-worker-port=25999")


class Cluster:
    """Two nodes of this machine, each with its own raylet."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.folder = folder
        self._ray = str(Path(PYTHON).with_name("ray"))

    def start(self, *arguments: str) -> set[int]:
        before = {process.pid for process in psutil.process_iter()}
        environment = {**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(
            [self._ray, "start", *arguments, *WORKER_PORTS, "--disable-usage-stats"]
            + ([f"--temp-dir={self.folder}"] if "--head" in arguments else []),
            env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return self._begun_since(before)

    def head(self, cpus: int) -> set[int]:
        return self.start(
            "--head", f"--port={self.port}", "--node-ip-address=127.0.0.1", f"--num-cpus={cpus}",
            "--include-dashboard=false", f"--memory={8 << 30}", "--resources", '{"left": 8}',
        )  # fmt: skip

    def node(self, cpus: int) -> set[int]:
        return self.start(
            f"--address={self.address}",
            f"--num-cpus={cpus}",
            f"--memory={8 << 30}",
            "--resources",
            '{"right": 8}',
        )

    def _begun_since(self, before: set[int]) -> set[int]:
        """This cluster's new processes: each names the cluster's port or its folder."""
        found = set()
        for process in psutil.process_iter():
            if process.pid in before:
                continue
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                line = " ".join(process.cmdline())
                if (
                    self.address in line
                    or f"{self.folder}/" in line
                    or f"--gcs_server_port={self.port}" in line
                ):
                    found.add(process.pid)
        return found


def kill_tree(pids: set[int]) -> None:
    """A machine that is gone: every process of the node, with all that they had started, at once."""
    whole: set[int] = set(pids)
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            whole |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    for pid in whole:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, set[int], set[int]]]:
    # Ray's sockets lie below it, and their paths may not be long.
    folder = Path(f"/tmp/ray-{os.getpid()}")
    ray = Cluster(folder)
    nodes: list[set[int]] = []
    try:
        nodes.append(ray.head(4))
        nodes.append(ray.node(4))
        yield ray, nodes[0], nodes[1]
    finally:
        for pids in nodes:
            kill_tree(pids)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def launching(stack: Stack, folder: Path, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    env_file = folder / "worker.env"
    told = {**worker_variables(stack), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    env_file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
    env_file.chmod(0o600)
    base = {
        "launcher": "ray", "address": address, "python": sys.executable, "env_file": str(env_file),
        "directory": str(folder / "seats"), "memory_mib": 256, "overhead_mib": 64, "cpus": 1,
    }  # fmt: skip
    pools = {
        "left": {**base, "resources": {"left": 1}},
        "right": {**base, "resources": {"right": 1}},
        "any": base,
    }
    (folder / "pools.yaml").write_text(yaml.safe_dump({"pools": pools}))
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("RUNSPINE_")},
        **worker_variables(stack),
        "RUNSPINE_NATS_USER": "launcher",
        "RUNSPINE_NATS_PASSWORD": stack.credentials.nats["launcher"],
        "RUNSPINE_LAUNCHER_POOLS": str(folder / "pools.yaml"),
        "PYTHONPATH": str(ROOT),
    }
    with (folder / "launcher.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            PYTHON, "-m", "services.launcher", env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_runs_on_two_nodes_end_once_and_right_though_one_node_and_the_launcher_are_killed(
    tmp_path: Path, cluster: tuple[Cluster, set[int], set[int]]
) -> None:
    ray, _, second = cluster
    settings = {"RUNSPINE_STALE_AFTER": "5", "RUNSPINE_LOST_AFTER": "12"}
    parts = {"nats", "s3", "orchestrator"}
    async with running_stack(tmp_path / "home", only=parts, settings=settings) as stack:
        with Client(find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})) as client:
            runs = []
            for number in range(RUNS):
                spec = RunSpec(
                    runner="script", command=["python", "-c", TRAINER, str(20 + number)],
                    env="Toy-v0", algo="none", pool="left" if number % 4 == 0 else "any",
                    limits=Limits(cpus=1), seed=number,
                )  # fmt: skip
                runs.append((await asyncio.to_thread(client.submit, spec)).run.id)
            async with launching(stack, tmp_path, ray.address) as launcher:
                await _until(client, runs, 2)
                launcher.kill()
            async with launching(stack, tmp_path, ray.address):
                await _until(client, runs, RUNS // 4)
                kill_tree(second)
                await _until(client, runs, RUNS)
            found = [await asyncio.to_thread(client.get, run) for run in runs]
    for number, got in enumerate(found):
        print(got.run.id, got.run.spec.pool, len(got.attempts), got.progress.counts.metrics)
        assert [a.number for a in got.attempts if a.exited.outcome == EXITED] == [got.run.attempt], got
        assert got.progress.counts.metrics == 20 + number
    # What was bound to the first node did not notice; something was running on the second.
    assert {len(got.attempts) for got in found if got.run.spec.pool == "left"} == {1}
    assert any(len(got.attempts) > 1 for got in found)


async def _until(client: Client, runs: list[str], count: int, seconds: float = 900) -> None:
    deadline = time.monotonic() + seconds
    while True:
        done = [run for run in runs if (await asyncio.to_thread(client.get, run)).run.phase == COMPLETED]
        if len(done) >= count:
            return
        assert time.monotonic() < deadline, f"{len(done)} of {count}"
        await asyncio.sleep(1)
