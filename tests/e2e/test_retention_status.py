"""Retention as a user sees it: five videos, a rule of two, and a status that reads "2/5 videos retained"."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runspine.embedded import running_stack
from runspine.errors import RunNotFoundError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import ArtifactPruned
from tests.kit.stack import Shell
from tests.kit.waiting import until

PARTS = {"nats", "s3", "orchestrator", "artifacts", "worker"}
TRAINER = """
import json, os, pathlib
folder = pathlib.Path(os.environ["RUNSPINE_RUN_DIR"])
for number in range(5):
    name = f"episode-{number}.mp4"
    (folder / name).write_bytes(name.encode() * 100)
    print(json.dumps({"type": "artifact", "kind": "video", "path": name, "step": number}), flush=True)
"""


def verified(client: Client, run: str) -> int:
    try:
        found = ArtifactClient(client).list(wire.ListArtifactsRequest(run=run))
    except RunNotFoundError:
        return 0  # the artifacts service does not know the run yet
    return sum(artifact.integrity == wire.GOOD for artifact in found)


def use(shell: Shell, folder: Path) -> None:
    """Everything a person types, and what is seen."""
    (folder / "videos.py").write_text(TRAINER)
    file = folder / "videos.yaml"
    file.write_text(
        f"runner: script\ncommand: [python, {folder / 'videos.py'}]\nenv: Toy-v0\nalgo: none\nseeds: [1]\n"
    )
    run = shell.submit(file)
    with shell.client() as client:
        until(lambda: verified(client, run) == 5, 120, "five videos are stored and verified")
    shell("retention", "set", "--max-videos", "2", "--grace", "none", "--manual")
    planned = shell.json("prune", "--dry-run")["items"]
    assert {item["artifact"]["name"] for item in planned} == {f"episode-{n}.mp4" for n in range(3)}
    shell("prune", "--yes")
    assert "2/5 videos retained" in shell("retention", run).stdout
    [status] = shell.json("retention", run)["statuses"]
    assert status["pruned_bytes"] == sum(item["artifact"]["size"] for item in planned)
    assert status["last_pruned_at"]
    assert [(kind["retained"], kind["total"]) for kind in status["kinds"]] == [(2, 5)]
    # A client that follows the run receives every prune as a fact.
    pruned: list[ArtifactPruned] = []
    with shell.client() as client:
        for message in client.watch(run, more={"ARTIFACTS": 0}):
            pruned += [f.artifact_pruned for f in message.facts if f.HasField("artifact_pruned")]
            if len(pruned) == 3:
                break
    assert {fact.digest for fact in pruned} == {item["artifact"]["digest"] for item in planned}
    assert {(fact.rule, fact.scope, fact.term) for fact in pruned} == {("max_videos_per_run=2", "default", 0)}


@pytest.mark.timeout(240)
async def test_a_rule_of_two_videos_reads_2_of_5_retained_and_every_prune_can_be_watched(
    tmp_path: Path,
) -> None:
    async with running_stack(tmp_path / "home", slots=1, only=PARTS):
        await asyncio.to_thread(use, Shell(tmp_path / "home"), tmp_path)
