"""What a run leaves behind on its way to S3: found, stored once, waited for, and reported."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED, RUNNING
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.client import PatientClient
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay

# As CleanRL's scripts lay it out, with one file announced by its launcher as well.
CLEANRL = """
import json, os
name = "CartPole-v1__dqn__1__1700000000"
for path in (f"runs/{name}/events.out.tfevents.170.host", f"runs/{name}/dqn.cleanrl_model",
             f"videos/{name}/rl-video-episode-0.mp4", f"videos/{name}-eval/rl-video-episode-0.mp4",
             f"wandb/offline-run-1/run-1.wandb", f"videos/{name}/rl-video-episode-0.meta.json",
             "notes.txt", f"wandb/debug.log"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write(f"content of {path}")
open("wandb/debug.log", "w").write("key " + os.environ["WANDB_API_KEY"])
os.symlink("/etc/hostname", f"videos/{name}/link.mp4")
record = {"type": "artifact", "kind": "model", "path": f"runs/{name}/dqn.cleanrl_model", "step": 500}
print(json.dumps(record), flush=True)
"""


async def test_what_a_script_leaves_in_cleanrls_places_becomes_artifacts_once(bay: Bay) -> None:
    bay.worker(WANDB_API_KEY="not-to-be-uploaded")
    run_id = await bay.python(CLEANRL, secrets=["WANDB_API_KEY"])
    assert (await bay.exited(run_id)).exit_code == 0
    name = "CartPole-v1__dqn__1__1700000000"
    found = await bay.artifacts(run_id, 5)
    assert {artifact.name: artifact.kind for artifact in found} == {
        f"runs/{name}/dqn.cleanrl_model": "model",
        f"runs/{name}/events.out.tfevents.170.host": "tensorboard",
        f"videos/{name}/rl-video-episode-0.mp4": "video",
        f"videos/{name}-eval/rl-video-episode-0.mp4": "video",
        "wandb/offline-run-1/run-1.wandb": "wandb",
    }
    assert len(found) == 5, "what was announced and found is one artifact"
    model = next(artifact for artifact in found if artifact.kind == "model")
    assert model.step == 500
    assert all(artifact.meta["found"].boolean for artifact in found if artifact.kind != "model")
    received = await bay.remarks(run_id)
    assert any("wandb/debug.log is not uploaded: it holds the value of secret" in text for text in received)


# What the worker fetched for the run lies in its directory: one file announced, another only found there.
FETCHED = """
import json, os
os.makedirs("resume")
names = [f"resume/{digit * 64}.{suffix}" for digit, suffix in (("a", "pt"), ("b", "mp4"))]
for name in [*names, "resume/own.cleanrl_model"]:
    open(name, "w").write(name)
print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": names[0], "step": 5}), flush=True)
print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "resume/own.cleanrl_model"}), flush=True)
"""


async def test_what_the_worker_fetched_for_a_run_is_not_stored_as_a_product_of_it(bay: Bay) -> None:
    bay.worker()
    run_id = await bay.python(FETCHED)
    assert (await bay.exited(run_id)).artifacts_pending == 0
    assert [artifact.name for artifact in await bay.artifacts(run_id, 1)] == ["resume/own.cleanrl_model"]
    refused = [text for text in await bay.remarks(run_id) if "is not uploaded" in text]
    assert refused == [
        f"artifact resume/{'a' * 64}.pt is not uploaded: the worker fetched it for this run: "
        "it is stored already"
    ]


async def test_a_directory_with_too_many_videos_is_capped_with_a_remark(bay: Bay) -> None:
    bay.worker()
    script = """
import os
os.makedirs("videos")
for n in range(230):
    with open(f"videos/{n:03}.mp4", "w") as file:
        file.write("same" if n % 2 else "bytes")
    os.utime(f"videos/{n:03}.mp4", (n, n))
"""
    run_id = await bay.python(script)
    exited = await bay.exited(run_id)
    found = await bay.artifacts(run_id, 200, seconds=120)
    assert sorted(artifact.name for artifact in found) == [f"videos/{n:03}.mp4" for n in range(30, 230)]
    assert exited.artifacts_pending <= 200
    assert any(text.startswith("30 older video files are not uploaded") for text in await bay.remarks(run_id))
    # The same bytes are one object, in whatever file they are.
    assert sorted(Counter(artifact.key for artifact in found).values()) == [100, 100]


async def test_a_run_that_leaves_nothing_is_no_error(bay: Bay) -> None:
    bay.worker()
    run_id = await bay.python("print('nothing')")
    exited = await bay.exited(run_id)
    assert (exited.exit_code, exited.artifacts_pending) == (0, 0)
    assert await bay.artifacts(run_id) == []
    assert await bay.remarks(run_id) == []


LAST_WORDS = """
import json, os, time
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
for n in (1, 2):
    open(f"model-{n}", "w").write(f"weights {n}")
    print(json.dumps({"type": "artifact", "kind": "model", "path": f"model-{n}"}), flush=True)
"""


def shown(stack: Stack, run_id: str) -> str:
    address = {"RUNSPINE_ADDRESS": stack.addresses["orchestrator"], "RUNSPINE_TOKEN": stack.token}
    done = subprocess.run(
        [sys.executable, "-m", "runspine", "show", run_id],
        capture_output=True,
        text=True,
        env={**os.environ, **address},
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_run_that_ends_while_s3_is_away_completes_and_reports_its_pending_uploads(
    tmp_path: Path,
) -> None:
    parts = {"nats", "s3", "orchestrator", "artifacts", "worker"}
    async with running_stack(tmp_path / "home", workers=1, slots=1, only=parts) as stack:
        client = PatientClient(stack)
        spec = RunSpec(runner="script", command=["python", "-c", LAST_WORDS])
        run_id = (await client.call("Submit", wire.SubmitRequest(spec=spec))).run.id
        await client.until_phase(run_id, RUNNING)
        got = await client.call("Get", wire.GetRequest(run_id=run_id))
        folder = Path(got.attempts[0].directory)

        async def ready() -> bool:
            return (folder / "ready").exists()

        await eventually(ready, 60)
        async with stack.without("s3"):
            (folder / "go").touch()
            await client.until_phase(run_id, COMPLETED, 120)
            assert "2 artifacts still to be uploaded" in await asyncio.to_thread(shown, stack, run_id)

        async def arrived() -> bool:
            got = await client.call("Get", wire.GetRequest(run_id=run_id))
            return len(got.attempts[0].artifacts) == 2 and not got.attempts[0].artifacts_pending

        await eventually(arrived, 60)
        assert "still to be uploaded" not in await asyncio.to_thread(shown, stack, run_id)
        got = await client.call("Get", wire.GetRequest(run_id=run_id))
        names = json.dumps(sorted(artifact.name for artifact in got.attempts[0].artifacts))
        assert names == '["model-1", "model-2"]'
