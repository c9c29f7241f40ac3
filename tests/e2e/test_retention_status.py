"""Retention as a user sees it: five videos, a rule of two, and a status that reads "2/5 videos retained"."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from runspine.embedded import Stack, running_stack
from runspine.embedded.s3 import BUCKET
from runspine.errors import RunNotFoundError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.settings import ServiceSettings
from runspine.storage.blobs import S3Blobs
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import ArtifactPruned
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.stack import Shell
from tests.kit.waiting import until

pytestmark = pytest.mark.long

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


@contextmanager
def janitor(stack: Stack) -> Iterator[None]:
    """A janitor apart from the artifacts service, with its own users of NATS and S3."""
    key = stack.credentials.s3_keys["janitor"]
    environment = clean_environment(
        RUNSPINE_NATS_URL=f"nats://{stack.addresses['nats']}",
        RUNSPINE_NATS_USER="janitor",
        RUNSPINE_NATS_PASSWORD=stack.credentials.nats["janitor"],
        RUNSPINE_LOG_ROOT=stack.credentials.log_root,
        RUNSPINE_SIGNING_KEY=stack.credentials.signing["janitor"],
        RUNSPINE_S3_ENDPOINT=stack.addresses["s3"],
        RUNSPINE_S3_ACCESS_KEY=key.access,
        RUNSPINE_S3_SECRET_KEY=key.secret,
        RUNSPINE_S3_BUCKET=BUCKET,
        RUNSPINE_JANITOR_SECONDS="0.5",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "runspine", "serve", "janitor"], env=environment, cwd=ROOT
    )
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(30) == 0


def use_janitor(shell: Shell, stack: Stack) -> None:
    """It moves what was pruned to the trash, and back after an undo."""
    assert "no janitor is at work" in shell("retention").stderr
    keys = stack.credentials
    settings = ServiceSettings(
        s3_endpoint=stack.addresses["s3"],
        s3_access_key=keys.s3_access_key,
        s3_secret_key=SecretStr(keys.s3_secret_key),
        s3_bucket=BUCKET,
    )
    trash = lambda: len(asyncio.run(S3Blobs(settings).keys("trash/")))  # noqa: E731
    assert trash() == 0
    with janitor(stack):
        until(lambda: trash() == 3, 60, "three objects are in the trash")
        found = shell("retention")
        assert re.search(r"janitor \S+, term 1, since", found.stderr)
        [batch] = re.findall(r"--undo (\w+)", found.stdout)
        shell("prune", "--undo", batch)
        until(lambda: trash() == 0, 60, "the trash is empty")
    assert "no janitor is at work" in shell("retention").stderr


@pytest.mark.timeout(240)
async def test_a_rule_of_two_videos_reads_2_of_5_retained_and_a_janitor_apart_moves_the_rest(
    tmp_path: Path,
) -> None:
    apart = {"RUNSPINE_JANITOR": "apart"}
    async with running_stack(tmp_path / "home", slots=1, only=PARTS, settings=apart) as stack:
        shell = Shell(tmp_path / "home")
        await asyncio.to_thread(use, shell, tmp_path)
        await asyncio.to_thread(use_janitor, shell, stack)
