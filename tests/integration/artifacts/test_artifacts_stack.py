"""The artifacts service as `runspine up` starts it: its own user on NATS, with a real worker."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from pathlib import Path

from runspine.embedded import Stack, running_stack
from runspine.errors import RunNotFoundError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.spec_pb2 import RunSpec

PARTS = {"nats", "s3", "orchestrator", "artifacts", "worker"}
TRAINER = """
import json, os, pathlib
folder = pathlib.Path(os.environ["RUNSPINE_RUN_DIR"])
for kind, name in (("checkpoint", "step-5.pt"), ("video", "clip.mp4")):
    (folder / name).write_bytes(name.encode() * 1000)
    print(json.dumps({"type": "artifact", "kind": kind, "path": name, "step": 5}), flush=True)
"""


def good(client: Client, run: str, count: int, seconds: float = 90.0) -> list[wire.Artifact]:
    """The run's artifacts, once so many are verified."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = ArtifactClient(client).list(wire.ListArtifactsRequest(run=run))
        except RunNotFoundError:
            found = []  # it does not know the run yet
        if sum(artifact.integrity == wire.GOOD for artifact in found) >= count:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def metrics(stack: Stack) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{stack.metrics['artifacts']}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


async def test_what_a_trainer_announces_can_be_fetched_even_after_the_service_was_killed(
    tmp_path: Path,
) -> None:
    async with running_stack(tmp_path / "home", slots=1, only=PARTS) as stack:
        endpoint = find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})
        assert endpoint.artifacts == stack.addresses["artifacts"]
        with Client(endpoint) as client:
            spec = RunSpec(runner="script", command=["python", "-c", TRAINER], env="Toy-v0", algo="none")
            run = (await asyncio.to_thread(client.submit, spec)).run.id
            found = await asyncio.to_thread(good, client, run, 2)
            assert {artifact.kind for artifact in found} >= {"checkpoint", "video"}
            target = tmp_path / "got.pt"
            await asyncio.to_thread(ArtifactClient(client).download, f"{run}:latest", target)
            assert target.read_bytes() == b"step-5.pt" * 1000
            emitted = metrics(stack)
            assert 'runspine_artifact_facts_total{kind="artifact_indexed"}' in emitted
            assert 'runspine_artifacts{integrity="good",keeping="kept"} 2.0' in emitted
            assert run not in emitted
            old = stack.kill("artifacts")
            await stack.until_restarted("artifacts", old)
            again = await asyncio.to_thread(good, client, run, 2)
            assert sorted(a.digest for a in again) == sorted(a.digest for a in found)
