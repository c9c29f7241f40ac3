"""A worker restarted after a kill: what it says of the attempts that went down, and what still arrives."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from runspine.blobs import S3Blobs
from runspine.log.streams import declarations
from runspine.wire.v1.facts_pb2 import LOST
from runspine.wire.v1.run_pb2 import Beat
from tests.integration.bay_rig import Bay
from tests.integration.worker_rig import Rig, eventually

STEADY = """
import json, random, time
step = 0
while True:
    for _ in range(20):
        print(json.dumps({"type": "step", "episode_id": f"e{step // 100}", "step": step % 100, "action": 1,
            "reward": 1.0, "terminated": step % 100 == 99, "truncated": False,
            "obs": [random.random() for _ in range(40)]}))
        step += 1
    print(json.dumps({"type": "metric", "name": "loss", "value": 0.5, "step": step}), flush=True)
    time.sleep(0.01)
"""


async def limit_stream(rig: Rig, most_bytes: int) -> None:
    config = next(each for each in declarations(telemetry_bytes=most_bytes) if each["name"] == "TELEMETRY")
    answer = await rig.link.request("$JS.API.STREAM.UPDATE.TELEMETRY", json.dumps(config).encode())
    assert "error" not in json.loads(answer.data), answer.data


async def last_beat(rig: Rig) -> Beat:
    message = await rig.link.request("$JS.API.DIRECT.GET.BEATS", b'{"last_by_subj":"beats.w1"}')
    return Beat.FromString(message.data)


async def test_what_is_said_of_a_lost_attempt_counts_exactly_what_it_left_behind(bay: Bay) -> None:
    worker = bay.worker()
    run_id = await bay.python(STEADY)

    async def under_way() -> bool:
        return len(await bay.batches(run_id)) > 10

    await eventually(under_way)
    worker.kill()
    bay.worker()
    exited = await bay.exited(run_id, seconds=60)
    assert exited.outcome == LOST
    batches = await bay.batches(run_id)
    assert sorted(batch.number for batch in batches) == list(range(1, len(batches) + 1))
    assert exited.counts.steps == sum(block.count for batch in batches for block in batch.steps.blocks)
    assert exited.counts.episodes == sum(len(batch.episodes.episodes) for batch in batches)
    assert exited.counts.metrics == sum(len(b.values) for batch in batches for b in batch.metrics.blocks)
    assert exited.counts.steps > 0
    assert exited.progress.step >= 0.9 * exited.counts.steps

    async def nothing_kept() -> bool:
        return not any((bay.folder / "w1" / "spool").iterdir())

    await eventually(nothing_kept)  # of an attempt whose end is told


@pytest.mark.long
async def test_a_spool_that_cannot_be_shipped_does_not_keep_the_run_waiting_and_arrives_later(
    bay: Bay,
) -> None:
    await limit_stream(bay, 256 << 10)
    worker = bay.worker()
    run_id = await bay.python(STEADY)
    spool = bay.folder / "w1" / "spool" / f"{run_id}.1"

    async def stuck() -> bool:
        return spool.is_dir() and sum(path.stat().st_size for path in spool.iterdir()) > 1 << 20

    await eventually(stuck, 60)
    worker.kill()
    began, restarted = time.monotonic(), time.time_ns() // 1000
    bay.worker()

    async def beaten() -> bool:
        beat = await last_beat(bay)
        held = [(each.run_id, each.attempt) for each in beat.attempts if beat.at > restarted]
        # Not yet online again, and yet heard of.
        onlines = [fact for fact in await bay.told("workers.w1") if fact.HasField("worker_online")]
        return held == [(run_id, 1)] and onlines[-1].at < restarted

    await eventually(beaten)
    exited = await bay.exited(run_id, seconds=60)
    assert exited.outcome == LOST
    assert exited.counts.steps > 0
    assert time.monotonic() - began < 40
    assert spool.is_dir(), "the rest is still to be shipped"
    # The run goes on elsewhere meanwhile: that is no reason to drop what its first attempt had said.
    await bay.requeue(run_id, 2)
    await asyncio.sleep(1.5)
    assert spool.is_dir()
    await limit_stream(bay, 256 << 20)

    async def shipped() -> bool:
        return not spool.is_dir()

    await eventually(shipped, 60)
    batches = await bay.batches(run_id)
    assert sorted(batch.number for batch in batches) == list(range(1, len(batches) + 1))
    assert sum(block.count for batch in batches for block in batch.steps.blocks) == exited.counts.steps


# Announces many files at once: the worker is killed while it still has to look at most of them.
BURST = """
import json, os, time
for n in range(40):
    with open(f"file-{n}", "wb") as file:
        file.write(os.urandom(1_500_000))
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
for n in range(40):
    print(json.dumps({"type": "artifact", "kind": "model", "path": f"file-{n}", "meta": {"n": n}}))
print("announced", flush=True)
time.sleep(600)
"""


async def test_a_file_announced_just_before_the_worker_is_killed_is_uploaded_all_the_same(bay: Bay) -> None:
    worker = bay.worker()
    run_id = await bay.python(BURST)
    folder = bay.folder / "w1" / "runs" / run_id / "attempt-1"
    noted = bay.folder / "w1" / "announced" / f"{run_id}.1.jsonl"

    async def ready() -> bool:
        return (folder / "ready").exists()

    await eventually(ready, 60)
    (folder / "go").touch()

    async def all_read() -> bool:
        return noted.exists() and noted.read_text().count('"event"') == 40

    await eventually(all_read)
    worker.kill()
    assert noted.read_text().count('"done"') < 40, "the worker was faster than the kill"
    bay.worker()
    exited = await bay.exited(run_id, seconds=90)
    assert exited.outcome == LOST
    found = await bay.artifacts(run_id, 40, seconds=120)
    assert sorted(artifact.name for artifact in found) == sorted(f"file-{n}" for n in range(40))
    assert not noted.exists()
    facts = await bay.attempts(run_id)
    ended = [fact.HasField("attempt_exited") for fact in facts].index(True)
    assert len(facts) - ended - 1 == exited.artifacts_pending
    blobs = S3Blobs(bay.s3.settings())
    for artifact in found[::20]:
        assert await blobs.stat(artifact.key) == artifact.size
