"""Telemetry through outages: nothing lost, nothing twice, and the trainer keeps its pace."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from runspine.eventlog.streams import declarations
from runspine.services.worker.telemetry.spool import SpoolFiles
from runspine.text.facts import progress_parts
from runspine.wire.v1.facts_pb2 import EXITED, LOST, AttemptExited, Progress
from runspine.wire.v1.run_pb2 import Beat
from runspine.wire.v1.telemetry_pb2 import WORKER, Batch
from tests.kit.samples.columns import actions_of, blocks_of
from tests.kit.servers.nats import NatsServer, free_port
from tests.kit.waiting import eventually
from tests.kit.worker import Rig, prometheus

# So many steps a second, 600 bytes each, for so many seconds; it writes down how far it is and when.
STEADY = """
import json, sys, time
rate, seconds = {rate}, {seconds}
record = {{"episode_id": "e", "reward": 1.0, "terminated": False, "truncated": False, "obs": [1 / 3] * 25}}
began, step = time.monotonic(), 0
with open("pace", "w") as pace:
    while step < rate * seconds:
        for _ in range(rate // 50):
            print(json.dumps({{"type": "step", "step": step, "action": step * 3, **record}}))
            step += 1
        sys.stdout.flush()
        print(time.time(), step, file=pace, flush=True)
        time.sleep(max(0, began + step / rate - time.monotonic()))
"""
# As fast as it can, so many steps.
GREEDY = STEADY.replace("time.sleep(max(0, began + step / rate - time.monotonic()))", "pass")


async def pace(rig: Rig, run_id: str) -> list[tuple[float, int]]:
    """When the trainer had printed how many steps."""
    folder = Path((await rig.started(run_id)).attempt_started.directory)
    return pace_in(folder)


def pace_in(folder: Path) -> list[tuple[float, int]]:
    lines = (folder / "pace").read_text().splitlines() if (folder / "pace").exists() else []
    return [(float(line.split()[0]), int(line.split()[1])) for line in lines if len(line.split()) == 2]


def folder_of(rig: Rig, run_id: str) -> Path:
    return rig.folder / "w1" / "runs" / run_id / "attempt-1"


def spool_of(rig: Rig, run_id: str) -> Path:
    return rig.folder / "w1" / "spool" / f"{run_id}.1"


def spooled(rig: Rig, run_id: str) -> list[int]:
    """The numbers of the batches in the spool, read from a copy."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(spool_of(rig, run_id), copy, dirs_exist_ok=True)
        files = SpoolFiles(Path(copy))
        found: list[int] = []
        while more := files.read(1 << 20):
            found += [record.number for record in more]
        files.close()
    return found


def check_once(batches: list[Batch], steps: int) -> None:
    """Every batch once, every step once, every value as it was."""
    numbers = [batch.number for batch in batches]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    blocks = blocks_of(batches, "e")
    assert [value for block in blocks for value in actions_of(block)] == [3 * step for step in range(steps)]
    assert all(block.observation.data == block.observation.data[:200] * block.count for block in blocks)


@pytest.mark.long
@pytest.mark.alone
async def test_an_outage_costs_nothing_and_does_not_slow_the_trainer(
    rig: Rig, nats_server: NatsServer
) -> None:
    rig.worker()
    rate, seconds = 5000, 14
    run_id = await rig.python(STEADY.format(rate=rate, seconds=seconds))
    folder = folder_of(rig, run_id)
    await eventually(lambda: len(pace_in(folder)) > 100)
    nats_server.kill()
    left = time.time()
    await asyncio.sleep(8)
    back = time.time()
    nats_server.start()
    exited = await rig.exited(run_id, seconds=120)
    assert (exited.outcome, exited.exit_code, exited.reason) == (EXITED, 0, "exit code 0")
    assert exited.counts.steps == rate * seconds
    check_once(await rig.batches(run_id), rate * seconds)
    away = [step for at, step in await pace(rig, run_id) if left <= at <= back]
    printed, wanted = away[-1] - away[0], rate * (back - left)
    print(
        f"\n{printed} steps printed while the server was away for {back - left:.1f} s, {wanted:.0f} planned"
    )
    assert printed > 0.95 * wanted
    assert not spool_of(rig, run_id).exists()


async def test_a_killed_worker_ships_what_it_had_spooled_before_it_reports_lost(
    rig: Rig, nats_server: NatsServer
) -> None:
    worker = rig.worker()
    run_id = await rig.python(STEADY.format(rate=5000, seconds=60))
    folder = folder_of(rig, run_id)
    await eventually(lambda: len(pace_in(folder)) > 50)
    nats_server.kill()
    # Whatever is not in the spool yet fits into a pipe and a batch.
    await eventually(lambda: len(pace_in(folder)) > 200 and len(spooled(rig, run_id)) > 10)
    worker.kill()
    waiting = spooled(rig, run_id)
    last = max(spool_of(rig, run_id).glob("*.seg"))
    with last.open("ab") as file:
        file.write(b"torn off in the middle of a record"[:27])
    nats_server.start()
    rig.worker()
    exited = await rig.exited(run_id, seconds=120)
    assert exited.outcome == LOST
    # A reader that sees the end sees everything that came before it.
    batches = await rig.batches(run_id)
    assert max(batch.number for batch in batches) == waiting[-1]
    steps = sum(block.count for batch in batches for block in batch.steps.blocks)
    assert steps > 5000 * 2
    check_once(batches, steps)
    await eventually(lambda: not spool_of(rig, run_id).exists())


async def test_a_worker_killed_in_full_flow_loses_nothing_it_spooled(rig: Rig) -> None:
    worker = rig.worker()
    run_id = await rig.python(GREEDY.format(rate=20_000, seconds=60))
    folder = folder_of(rig, run_id)
    await eventually(lambda: len(pace_in(folder)) > 60)
    worker.kill()
    rig.worker()
    assert (await rig.exited(run_id, seconds=60)).outcome == LOST
    batches = await rig.batches(run_id)
    steps = sum(block.count for batch in batches for block in batch.steps.blocks)
    assert steps > 10_000
    check_once(batches, steps)


async def test_a_full_spool_slows_the_trainer_and_is_reported(rig: Rig, nats_server: NatsServer) -> None:
    metrics = free_port()
    rig.worker(RUNSPINE_SPOOL_MIB="2", RUNSPINE_METRICS_ADDRESS=f"127.0.0.1:{metrics}")
    begin = "import os, time\nopen('ready', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
    run_id = await rig.python(begin + GREEDY.format(rate=30_000, seconds=1))
    folder = folder_of(rig, run_id)
    await eventually((folder / "ready").exists)
    nats_server.kill()
    (folder / "go").touch()

    def stalled() -> bool:
        before = pace_in(folder)
        time.sleep(1)
        return bool(before) and pace_in(folder) == before

    await eventually(lambda: prometheus(metrics)["runspine_worker_spool_full_seconds_total"] > 0)
    assert prometheus(metrics)["runspine_worker_spool_limit_bytes"] == 2 << 20
    await eventually(stalled)
    assert pace_in(folder)[-1][1] < 30_000
    assert prometheus(metrics)["runspine_worker_spool_bytes"] >= 2 << 20
    nats_server.start()
    exited = await rig.exited(run_id, seconds=120)
    assert exited.counts.steps == 30_000
    assert exited.reason.startswith("exit code 0 (held up for ")
    batches = await rig.batches(run_id)
    check_once(batches, 30_000)
    received = [line.text for batch in batches for line in batch.logs.lines if line.source == WORKER]
    assert received[0] == "the spool (2 MiB) is full: the trainer waits until its telemetry can be stored"
    assert received[1].startswith("the trainer continues: ")
    assert len(received) == 2
    assert prometheus(metrics)["runspine_worker_spool_bytes"] == 0


async def limit_stream(rig: Rig, most_bytes: int) -> None:
    config = next(each for each in declarations(telemetry_bytes=most_bytes) if each["name"] == "TELEMETRY")
    answer = await rig.link.request("$JS.API.STREAM.UPDATE.TELEMETRY", json.dumps(config).encode())
    assert "error" not in json.loads(answer.data), answer.data


async def test_a_full_stream_is_waited_for(rig: Rig) -> None:
    await limit_stream(rig, 256 << 10)
    rig.worker()
    run_id = await rig.python("import random\nfor _ in range(40): print(random.randbytes(25_000).hex())")

    async def full() -> bool:
        info = json.loads((await rig.link.request("$JS.API.STREAM.INFO.TELEMETRY", b"")).data)
        return bool(info["state"]["bytes"] > 150 << 10)

    await eventually(full)
    await asyncio.sleep(1)
    assert not any(fact.HasField("attempt_exited") for fact in await rig.attempts(run_id))
    await limit_stream(rig, 64 << 20)
    exited = await rig.exited(run_id, seconds=120)
    assert exited.counts.log_lines == 40
    batches = await rig.batches(run_id)
    assert sorted(batch.number for batch in batches) == list(range(1, len(batches) + 1))
    lines = sorted((line for batch in batches for line in batch.logs.lines), key=lambda line: line.number)
    assert [len(line.text) for line in lines] == [50_000] * 40


async def test_a_trainer_that_is_held_back_can_be_seen_while_it_is(rig: Rig) -> None:
    await limit_stream(rig, 256 << 10)
    metrics = free_port()
    rig.worker(RUNSPINE_SPOOL_MIB="1", RUNSPINE_METRICS_ADDRESS=f"127.0.0.1:{metrics}")
    run_id = await rig.python("import random\nfor _ in range(400): print(random.randbytes(25_000).hex())")

    async def held_back() -> Progress | None:
        body = b'{"last_by_subj":"beats.w1"}'
        beat = Beat.FromString((await rig.link.request("$JS.API.DIRECT.GET.BEATS", body)).data)
        return next((each.progress for each in beat.attempts if each.progress.held_back_seconds > 1), None)

    progress = await eventually(held_back, 60)
    assert progress.held_back == "the spool (1 MiB) is full"
    words = progress_parts(progress)[-1]
    assert words.startswith("held back: the spool (1 MiB) is full (")

    async def shown() -> bool:
        # Between two batches that the stream still takes the spool has room for a moment.
        seen = prometheus(metrics)
        return (seen["runspine_worker_spool_full"], seen["runspine_worker_held_back"]) == (1, 1)

    await eventually(shown, 60)
    await limit_stream(rig, 64 << 20)
    exited = await rig.exited(run_id, seconds=120)
    assert (exited.progress.held_back, exited.counts.log_lines) == ("", 402)
    assert exited.progress.held_back_seconds > 1
    assert prometheus(metrics)["runspine_worker_held_back"] == 0


async def test_a_fenced_attempt_publishes_nothing_more(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(STEADY.format(rate=2000, seconds=60))
    folder = folder_of(rig, run_id)
    await eventually(lambda: len(pace_in(folder)) > 20)
    await rig.requeue(run_id, 2)
    await eventually(lambda: not spool_of(rig, run_id).exists())

    async def silent() -> bool:
        # What was under way when the spool went may still arrive; a trainer at its pace would go on.
        before = len(await rig.batches(run_id))
        await asyncio.sleep(1)
        return len(await rig.batches(run_id)) == before

    await eventually(silent, 20)


async def test_a_spool_left_by_an_overtaken_attempt_is_dropped(rig: Rig, nats_server: NatsServer) -> None:
    worker = rig.worker()
    run_id = await rig.python(STEADY.format(rate=2000, seconds=60))
    folder = folder_of(rig, run_id)
    await eventually(lambda: len(pace_in(folder)) > 20)

    async def some() -> bool:
        return bool(await rig.batches(run_id))

    await eventually(some)
    nats_server.kill()
    await eventually(lambda: bool(spooled(rig, run_id)))
    worker.kill()
    nats_server.start()
    await rig.requeue(run_id, 2)
    before = len(await rig.batches(run_id))
    assert before > 0
    rig.worker()
    await eventually(lambda: not spool_of(rig, run_id).exists())
    assert len(await rig.batches(run_id)) == before


async def test_a_drained_worker_leaves_its_spool_to_the_next(rig: Rig, nats_server: NatsServer) -> None:
    worker = rig.worker(RUNSPINE_DRAIN_SECONDS="2")
    run_id = await rig.python(STEADY.format(rate=2000, seconds=60))
    folder = folder_of(rig, run_id)
    await eventually(lambda: len(pace_in(folder)) > 20)
    nats_server.kill()
    await asyncio.sleep(1)
    worker.term()
    assert await asyncio.to_thread(worker.process.wait, 60) == 0
    printed = pace_in(folder)[-1][1]
    nats_server.start()
    rig.worker()
    exited: AttemptExited = await rig.exited(run_id, seconds=120)
    assert exited.outcome == LOST
    batches = await rig.batches(run_id)
    steps = sum(block.count for batch in batches for block in batch.steps.blocks)
    # Everything that the trainer printed before it was stopped.
    assert steps >= printed
    check_once(batches, steps)
