"""A worker restarted after a kill: what it reports of the attempts that went down, and what still arrives."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.services.worker.process.trainer_process import REAPER_LOCK
from runspine.storage.blobs import S3Blobs
from runspine.wire.v1.facts_pb2 import LOST
from runspine.wire.v1.run_pb2 import Beat
from tests.kit.waiting import eventually
from tests.kit.worker import FAMILY, Rig, all_gone, family, is_alive, limit_stream, parent_of
from tests.kit.worker_with_s3 import Bay

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


async def last_beat(rig: Rig) -> Beat:
    message = await rig.link.request("$JS.API.DIRECT.GET.BEATS", b'{"last_by_subj":"beats.w1"}')
    return Beat.FromString(message.data)


async def test_the_report_of_a_lost_attempt_counts_exactly_what_it_left_behind(bay: Bay) -> None:
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

    await eventually(nothing_kept)  # of an attempt whose end is reported


async def test_a_restarted_worker_ends_the_trainer_of_a_stopped_reaper_before_it_reports_the_loss(
    rig: Rig,
) -> None:
    worker = rig.worker()
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    reaper = parent_of(pids[0])
    os.kill(reaper, signal.SIGSTOP)
    try:
        worker.kill()
        assert all(is_alive(pid) for pid in pids), "the trainer was to be left alive"
        rig.worker()
        exited = await rig.exited(run_id, seconds=60)
        assert exited.outcome == LOST
        assert not [pid for pid in (*pids, reaper) if is_alive(pid)]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(reaper, signal.SIGCONT)


@contextlib.contextmanager
def lock_without_a_process(lock: Path) -> Iterator[None]:
    """Hold a lock through a descriptor in flight, which no process has: nothing can be killed for it."""
    sender, receiver = socket.socketpair()
    with sender, receiver:
        descriptor = os.open(lock, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        socket.send_fds(sender, [b"lock"], [descriptor])
        os.close(descriptor)
        yield


async def test_an_attempt_that_cannot_be_shown_dead_keeps_its_lease_and_its_host(rig: Rig) -> None:
    worker = rig.worker()
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    folder = Path((await rig.started(run_id)).attempt_started.directory)
    worker.kill()
    await all_gone(pids, 60)
    with lock_without_a_process(folder / REAPER_LOCK):
        restarted = rig.worker()

        async def given_up() -> bool:
            return "recovery.reaper_alive" in restarted.log()

        await eventually(given_up, 60)
        reported = time.time_ns() // 1000

        async def still_held() -> bool:
            beat = await last_beat(rig)
            return beat.at > reported and [each.run_id for each in beat.attempts] == [run_id]

        await eventually(still_held, 60)
        assert not [fact for fact in await rig.attempts(run_id) if fact.HasField("attempt_exited")]
    assert (await rig.exited(run_id, seconds=60)).outcome == LOST


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
        # Not yet online again, but its heartbeats arrive.
        onlines = [fact for fact in await bay.received("workers.w1") if fact.HasField("worker_online")]
        return held == [(run_id, 1)] and onlines[-1].at < restarted

    await eventually(beaten)
    exited = await bay.exited(run_id, seconds=60)
    assert exited.outcome == LOST
    assert exited.counts.steps > 0
    assert time.monotonic() - began < 40
    assert spool.is_dir(), "the rest is still to be shipped"
    # The run goes on elsewhere meanwhile: that is no reason to drop what its first attempt had printed.
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
