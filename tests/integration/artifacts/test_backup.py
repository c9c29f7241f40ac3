"""`runspine backup` on one stack, `restore` on an empty one: the same runs, curves and checkpoints."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from runspine.embedded import running_stack
from runspine.errors import RunNotFoundError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.environment import clean_environment
from tests.kit.forks.command import run_command
from tests.kit.paths import RECORDED_LOGS
from tests.kit.waiting import eventually

PARTS = {"nats", "s3", "orchestrator", "artifacts", "telemetry", "worker"}
QUICK = {"RUNSPINE_INGEST_COMMIT_SECONDS": "0.5", "RUNSPINE_INGEST_TRIM_SECONDS": "0.2"}
TRAINER = """
import json, os, pathlib, sys
folder, tag = pathlib.Path(os.environ["RUNSPINE_RUN_DIR"]), sys.argv[1]
for step in range(200):
    print(json.dumps({"type": "metric", "name": "losses/loss", "value": step / 7, "step": step}))
(folder / "weights.pt").write_bytes(tag.encode() * 5000)
print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "weights.pt", "step": 200}), flush=True)
"""


async def runspine(home: Path, *arguments: str, code: int = 0) -> Any:
    """Run a command as a person would; its JSON, or what it printed on stderr."""
    environment = clean_environment(RUNSPINE_HOME=str(home))
    done = await asyncio.to_thread(run_command, *arguments, "--json", environment=environment)
    assert done.returncode == code, done
    if code == 0 or done.stdout:
        return json.loads(done.stdout)
    return json.loads(done.stderr)["error"]["message"]


async def trained(client: Client, tag: str) -> str:
    spec = RunSpec(
        runner="script", command=["python", "-c", TRAINER, tag], env="Toy-v0", algo="none", name=f"run-{tag}"
    )
    run = (await asyncio.to_thread(client.submit, spec)).run.id
    await eventually(lambda: client.get(run).run.phase == COMPLETED)

    def indexed() -> bool:
        try:
            found = ArtifactClient(client).list(wire.ListArtifactsRequest(run=run))
        except RunNotFoundError:
            return False
        return any(artifact.integrity == wire.GOOD for artifact in found)

    await eventually(indexed)
    return run


async def seen(home: Path, client: Client, runs: list[str], folder: Path) -> dict[str, Any]:
    """All that a person can see of some runs."""
    folder.mkdir()
    received: dict[str, Any] = {}
    for run in runs:
        checkpoint = folder / f"{run}.pt"
        await asyncio.to_thread(ArtifactClient(client).download, f"{run}:latest", checkpoint)
        curve = folder / f"{run}.csv"
        await runspine(home, "metrics", run, "losses/loss", "--export", str(curve))
        received[run] = {
            "run": client.get(run).run.SerializeToString(deterministic=True),
            "curve": curve.read_text(),
            "checkpoint": checkpoint.read_bytes(),
        }
    return received


@pytest.mark.long
async def test_a_restored_system_shows_the_same_runs_curves_and_checkpoints(tmp_path: Path) -> None:
    old, new, folder = tmp_path / "old", tmp_path / "new", tmp_path / "backup"
    async with running_stack(old, slots=1, only=PARTS, settings=QUICK) as stack:
        with Client(find_endpoint({"RUNSPINE_HOME": str(old)})) as client:
            runs = [await trained(client, "first")]
            # The first backup finds telemetry in segments, the second also some on the stream alone.
            first = await runspine(old, "backup", str(folder))
            async with stack.without("telemetry"):
                runs.append(await trained(client, "sécond ☂"))
                second = await runspine(old, "backup", str(folder))
            before = await seen(old, client, runs, tmp_path / "before")
    assert first["missing"] == second["missing"] == []
    assert second["telemetry_tail"] > 0
    assert second["facts"]["RUNS"] > first["facts"]["RUNS"] > 0
    assert before[runs[0]]["curve"].count("\n") >= 200

    received = await runspine(new, "restore", str(folder))
    assert received["flaws"] == []
    assert received["facts"] == second["facts"]
    async with running_stack(new, slots=1, only=PARTS, settings=QUICK):
        verdict = await runspine(new, "events", "verify")
        assert verdict["whole"]
        with Client(find_endpoint({"RUNSPINE_HOME": str(new)})) as client:
            assert await seen(new, client, runs, tmp_path / "after") == before
            # It is a working system, not a museum.
            await trained(client, "third")
            refused = await runspine(new, "restore", str(folder), code=5)
            assert "runspine down" in refused


async def test_a_damaged_backup_is_named_and_not_restored(tmp_path: Path) -> None:
    old, folder = tmp_path / "old", tmp_path / "backup"
    async with running_stack(old, only={"nats", "s3", "orchestrator"}):
        with Client(find_endpoint({"RUNSPINE_HOME": str(old)})) as client:
            spec = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none")
            await asyncio.to_thread(client.submit, spec)
            tar = tmp_path / "all.tar"
            await runspine(old, "backup", str(tar))
            await runspine(old, "backup", str(folder))
    assert (await runspine(old, "backup", "--verify", str(tar)))["flaws"] == []
    [chunk] = (folder / "streams" / "RUNS").glob("*.log")
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    received = await runspine(old, "backup", "--verify", str(folder), code=1)
    assert any(chunk.name in problem for problem in received["flaws"])
    assert "damaged" in await runspine(tmp_path / "new", "restore", str(folder), code=2)
    assert not (tmp_path / "new").exists()


@pytest.mark.long
async def test_a_log_recorded_by_an_older_release_is_restored_and_folds_to_the_same_runs(
    tmp_path: Path,
) -> None:
    recorded = sorted(RECORDED_LOGS.glob("*.log"))[0]
    home = tmp_path / "home"
    received = await runspine(home, "restore", str(recorded))
    assert received["flaws"] == []
    # Restored once more it is there already, which is no error.
    assert (await runspine(home, "restore", str(recorded)))["facts"] == received["facts"]
    expected = json.loads(recorded.with_suffix(".json").read_text())["runs"]
    async with running_stack(home, only={"nats", "s3", "orchestrator"}):
        assert (await runspine(home, "events", "verify"))["whole"]
        with Client(find_endpoint({"RUNSPINE_HOME": str(home)})) as client:
            for run in expected:
                assert (await asyncio.to_thread(client.get, run)).run.id == run
