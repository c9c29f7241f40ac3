"""The Ray launcher on a real cluster of two nodes: runs placed by resources, one node killed, each ends once.

Ray is large and has to match the cluster, so it is not in the development install. Name a Python that has
ray and runspine in RUNSPINE_TEST_RAY_PYTHON to run this; docs/howto/ray.md shows how to make one.
RUNSPINE_TEST_RAY_RUNS sets how many runs (20).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from runspine.embedded import Stack, running_stack
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.facts_pb2 import EXITED
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import Limits, RunSpec
from runspine.wire.v1.trainer_pb2 import GetResponse
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.servers.ray_cluster import Cluster, Node, running_cluster
from tests.kit.stack import worker_variables

PYTHON = os.environ.get("RUNSPINE_TEST_RAY_PYTHON", "")
RUNS = int(os.environ.get("RUNSPINE_TEST_RAY_RUNS", "20"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not PYTHON, reason="RUNSPINE_TEST_RAY_PYTHON names no Python that has ray"),
]
TRAINER = """
import json, sys, time
for step in range(int(sys.argv[1])):
    print(json.dumps({"type": "metric", "name": "loss", "value": step, "step": step}), flush=True)
    time.sleep(0.1)
"""
# Runs of the first wave, which outlives the launcher; the second node dies in the next.
EARLY = 8
# Metrics of the shortest run, ten a second.
SHORT = 50
# So many runs are in the middle of their training on the second node when it dies.
CAUGHT = 2


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running_cluster(PYTHON) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def launching(stack: Stack, folder: Path, ray: Cluster) -> AsyncIterator[asyncio.subprocess.Process]:
    env_file = folder / "worker.env"
    received = {**worker_variables(stack), "PATH": os.environ["PATH"]}
    env_file.write_text("".join(f"{name}={value}\n" for name, value in received.items()))
    env_file.chmod(0o600)
    base = {
        "launcher": "ray", "address": ray.address, "python": sys.executable, "env_file": str(env_file),
        "directory": str(folder / "placements"), "memory_mib": 256, "overhead_mib": 64, "cpus": 1,
        "variables": {"PYTHONPATH": str(ROOT)},
    }  # fmt: skip
    pools = {
        "left": {**base, "resources": {"left": 1}},
        "right": {**base, "resources": {"right": 1}},
        "any": base,
    }
    (folder / "pools.yaml").write_text(yaml.safe_dump({"pools": pools}))
    environment = {
        **clean_environment(),
        **worker_variables(stack),
        **ray.variables,
        "RUNSPINE_NATS_USER": "launcher",
        "RUNSPINE_NATS_PASSWORD": stack.credentials.nats["launcher"],
        "RUNSPINE_LAUNCHER_POOLS": str(folder / "pools.yaml"),
        "PYTHONPATH": str(ROOT),
    }
    with (folder / "launcher.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            PYTHON, "-m", "runspine.services.launcher", env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class Runs:
    """The runs of the test, and on which nodes their trainers were seen."""

    def __init__(self, client: Client, ray: Cluster) -> None:
        self._client = client
        self._nodes = {"left": ray.head, "right": ray.second}
        self.pools: dict[str, str] = {}
        self.seen: dict[str, set[str]] = {}

    async def submit(self, pool: str, metrics: int) -> None:
        spec = RunSpec(
            runner="script", command=["python", "-c", TRAINER, str(metrics)], env="Toy-v0", algo="none",
            pool=pool, limits=Limits(cpus=1), seed=metrics,
        )  # fmt: skip
        run = (await asyncio.to_thread(self._client.submit, spec)).run.id
        self.pools[run], self.seen[run] = pool, set()

    async def get(self, run: str) -> GetResponse:
        return await asyncio.to_thread(self._client.get, run)

    def look(self) -> None:
        for side, node in self._nodes.items():
            for run in node.runs() & self.seen.keys():
                self.seen[run].add(side)

    async def until(self, pools: set[str], count: int, seconds: float = 900) -> None:
        """So many runs of these pools are complete."""
        deadline = time.monotonic() + seconds
        wanted = [run for run, pool in self.pools.items() if pool in pools]
        done: list[str] = []
        while len(done) < min(count, len(wanted)):
            assert time.monotonic() < deadline, f"{len(done)} of {count}"
            await asyncio.to_thread(self.look)
            await asyncio.sleep(0.5)
            done = [run for run in wanted if (await self.get(run)).run.phase == COMPLETED]

    async def lose(self, node: Node, seconds: float = 300) -> set[str]:
        """Freeze the node at a moment when it trains, look what it trains, and kill it."""
        deadline = time.monotonic() + seconds
        while True:
            assert time.monotonic() < deadline, "the node never trains"
            if len(await asyncio.to_thread(node.runs)) >= CAUGHT:
                await asyncio.to_thread(node.freeze)
                caught = {run for run in node.runs() & self.seen.keys() if await self._begun(run)}
                if len(caught) >= CAUGHT:
                    await asyncio.to_thread(self.look)
                    await asyncio.to_thread(node.kill)
                    return caught
                await asyncio.to_thread(node.thaw)
            await asyncio.sleep(0.5)

    async def _begun(self, run: str) -> bool:
        """Whether its attempt is on the log, and no last word of it."""
        return any(not attempt.HasField("exited") for attempt in (await self.get(run)).attempts)


async def test_runs_on_two_nodes_end_once_and_right_though_one_node_and_the_launcher_are_killed(
    tmp_path: Path, cluster: Cluster
) -> None:
    settings = {"RUNSPINE_STALE_AFTER": "5", "RUNSPINE_LOST_AFTER": "12"}
    parts = {"nats", "s3", "orchestrator"}
    async with running_stack(tmp_path / "home", only=parts, settings=settings) as stack:
        with Client(find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})) as client:
            runs = Runs(client, cluster)
            # Those that only the second node can take come first: later there is none.
            for number in range(EARLY):
                await runs.submit(("right", "left", "any", "any")[number % 4], SHORT + number)
            async with launching(stack, tmp_path, cluster) as launcher:
                await runs.until({"left", "right", "any"}, 1)
                launcher.kill()
            async with launching(stack, tmp_path, cluster):
                await runs.until({"right"}, EARLY)
                for number in range(EARLY, RUNS):
                    await runs.submit("left" if number % 4 == 0 else "any", SHORT + number)
                caught = await runs.lose(cluster.second)
                assert not cluster.second.processes()
                await runs.until({"left", "right", "any"}, RUNS)
            found = {run: await runs.get(run) for run in runs.pools}
    for number, (run, got) in enumerate(found.items()):
        counted = got.progress.counts.metrics
        print(run, runs.pools[run], sorted(runs.seen[run]), len(got.attempts), counted, run in caught)
        assert [a.number for a in got.attempts if a.exited.outcome == EXITED] == [got.run.attempt], got
        assert counted == SHORT + number
    # Placed by resources, as far as they were seen; what was bound to the first node did not notice.
    for side in ("left", "right"):
        assert set().union(*(runs.seen[run] for run, pool in runs.pools.items() if pool == side)) == {side}
    assert {len(found[run].attempts) for run, pool in runs.pools.items() if pool == "left"} == {1}
    # What the second node was training was trained again; with that node gone, on the first.
    assert all(len(found[run].attempts) > 1 and "right" in runs.seen[run] for run in caught)
