"""The launcher: each run of its pool gets a worker of its own, whatever dies in between.

Kubernetes is played by tests/kit/servers/kubernetes.py, which checks bodies by the published schema.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runspine.embedded import Stack, running_stack
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.services.launcher.core.placement import PlacementState
from runspine.services.launcher.engines.kubernetes_jobs import KubernetesJobs, connect_api
from runspine.services.launcher.engines.port import EngineAwayError, NotLaunchableError
from runspine.services.launcher.pools import KubernetesPool
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, RUNNING, Run
from runspine.wire.v1.spec_pb2 import Limits, RunSpec
from tests.kit.environment import clean_environment
from tests.kit.servers.kubernetes import FakeKubernetes
from tests.kit.stack import worker_variables
from tests.kit.waiting import eventually

POOL = {"launcher": "kubernetes", "namespace": "runs", "image": "registry.example/runspine:1"}


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeKubernetes]:
    server = FakeKubernetes(tmp_path)
    yield server
    server.close()


@contextlib.asynccontextmanager
async def jobs(fake: FakeKubernetes, monkeypatch: pytest.MonkeyPatch, **pool: Any) -> AsyncIterator[Any]:
    monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig()))
    # The library keeps the path it has found at its import.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(fake.kubeconfig()))
    launcher = KubernetesJobs(connect_api(), "k8s", KubernetesPool.model_validate({**POOL, **pool}))
    try:
        yield launcher
    finally:
        await launcher.close()


async def listed(launcher: Any) -> list[Any]:
    """Its placements, once it has an answer from the server."""
    deadline = time.monotonic() + 90
    while True:
        try:
            return list(await launcher.placements())
        except EngineAwayError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


def states(launcher: Any) -> list[PlacementState]:
    return [placement.state for placement in asyncio.run(launcher.placements())]


async def test_a_job_is_made_once_followed_and_adopted_by_the_next_launcher(
    fake: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(id="01JABCDEF", attempt=1, spec=RunSpec(gpus=2, limits=Limits(cpus=1.5, memory_mib=1024)))
    async with jobs(fake, monkeypatch) as launcher:
        assert await listed(launcher) == []
        await launcher.launch(run)
        [placement] = await launcher.placements()
        assert (placement.run_id, placement.attempt, placement.state) == (
            "01JABCDEF",
            1,
            PlacementState.WAITING,
        )
        fake.set_status(placement.name, ready=1)
        await eventually(lambda: states(launcher) == [PlacementState.RUNNING])
    async with jobs(fake, monkeypatch) as another:
        assert [(s.name, s.state) for s in await listed(another)] == [
            (placement.name, PlacementState.RUNNING)
        ]
        fake.finish(placement.name, "Failed")
        await eventually(lambda: states(another) == [PlacementState.OVER])
        # A second try of the same attempt is a Job of its own: the first can still be looked at.
        await another.launch(run)
        assert [body["metadata"]["name"][-4:] for body in fake.created] == ["-1-1", "-1-2"]
        await another.cancel(placement)
        await another.cancel(placement)
        assert fake.deleted == [placement.name]
    resources = fake.created[0]["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"memory": "1536Mi", "nvidia.com/gpu": "2"}
    assert resources["requests"]["cpu"] == "1500m"


async def test_a_refusing_server_counts_as_away_and_a_rejected_job_is_reported(
    fake: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with jobs(fake, monkeypatch, tolerations=[{"key": 7}]) as launcher:
        await listed(launcher)
        with pytest.raises(NotLaunchableError, match="tolerations"):
            await launcher.launch(Run(id="01JX", attempt=1))
    async with jobs(fake, monkeypatch) as launcher:
        await listed(launcher)
        fake.refusing = 422
        with pytest.raises(NotLaunchableError, match="422"):
            await launcher.launch(Run(id="01JX", attempt=1))
        fake.refusing = 403
        with pytest.raises(EngineAwayError, match="403"):
            await launcher.launch(Run(id="01JX", attempt=1))
        fake.refusing = 0


@contextlib.asynccontextmanager
async def launching(stack: Stack, folder: Path, pools: dict[str, Any], **more: str) -> AsyncIterator[Any]:
    """The real launcher as a process, as its own user on NATS."""
    path = folder / "pools.yaml"
    path.write_text(yaml.safe_dump({"pools": pools}))
    environment = {
        **clean_environment(),
        **worker_variables(stack),
        "RUNSPINE_NATS_USER": "launcher",
        "RUNSPINE_NATS_PASSWORD": stack.credentials.nats["launcher"],
        "RUNSPINE_LAUNCHER_POOLS": str(path),
        "RUNSPINE_LAUNCHER_SECONDS": "0.3",
        **more,
    }
    with (folder / "launcher.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "runspine.services.launcher", env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.long
async def test_runs_of_a_launched_pool_end_once_though_the_launcher_is_killed(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only={"nats", "s3", "orchestrator"}) as stack:
        fake = FakeKubernetes(tmp_path, worker_variables(stack))
        try:
            with Client(find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})) as client:
                await _launched(stack, client, fake, tmp_path)
        finally:
            fake.close()


async def _launched(stack: Stack, client: Client, fake: FakeKubernetes, folder: Path) -> None:
    def submit(*command: str) -> str:
        spec = RunSpec(runner="script", command=list(command), env="Toy-v0", algo="none", pool="k8s")
        return client.submit(spec).run.id

    def reached(run: str, phase: int) -> Callable[[], bool]:
        return lambda: client.get(run).run.phase == phase

    kube = {"KUBECONFIG": str(fake.kubeconfig())}
    async with launching(stack, folder, {"k8s": POOL}, **kube) as launcher:
        first = await asyncio.to_thread(submit, "true")
        await eventually(lambda: fake.created)
        launcher.kill()
    long = await asyncio.to_thread(submit, "sleep", "600")
    async with launching(stack, folder, {"k8s": POOL}, **kube):
        await eventually(reached(first, COMPLETED))
        await eventually(reached(long, RUNNING))
        await asyncio.to_thread(client.cancel, long, "enough")
        await eventually(reached(long, CANCELLED))
        await eventually(lambda: all(process.poll() == 0 for process in fake.processes.values()))
    for run in (first, long):
        assert len((await asyncio.to_thread(client.get, run)).attempts) == 1
    assert [body["metadata"]["labels"]["runspine.dev/run"] for body in fake.created] == [first, long]
