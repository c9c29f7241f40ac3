"""The telemetry service killed again and again under load: the segments hold exactly what was sent."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.subjects import TELEMETRY, telemetry_subject
from runspine.services.telemetry.core.manifest import partition_of
from runspine.services.telemetry.edges.archived_history import ArchivedHistory
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1.telemetry_pb2 import Batch
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server
from tests.kit.telemetry import Archived, archiving, step_batch, steps

# The promise is for 2,000,000; CI sends fewer.
STEPS = int(os.environ.get("RUNSPINE_TEST_STEPS", "300000"))
KILLS = 10
BLOCK, BLOCKS = 100, 10


@pytest.fixture
async def archived(
    nats_server: NatsServer, s3_server: S3Server, connect: Any, tmp_path: Path
) -> AsyncIterator[Archived]:
    async with archiving(nats_server, s3_server, connect, tmp_path) as made:
        yield made


def batches(run_id: str, total: int) -> AsyncIterator[bytes]:
    """Numbered batches whose actions count the run's steps, over several slots."""

    async def made() -> AsyncIterator[bytes]:
        for number, first in enumerate(range(0, total, BLOCK * BLOCKS), 1):
            blocks = [
                steps(f"e{at // 1000}", at % 1000, [float(at)] * BLOCK, at, slot=at // BLOCK % 4)
                for at in range(first, min(first + BLOCK * BLOCKS, total), BLOCK)
            ]
            batch = Batch(run_id=run_id, attempt=1, number=number, steps=step_batch(*blocks))
            yield batch.SerializeToString()

    return made()


async def send(archived: Archived, runs: list[str], total: int, seconds: float) -> int:
    """Every run's batches in turn, over so many seconds; one in twenty is sent twice."""
    sources = [batches(run_id, total) for run_id in runs]
    count, pause = 0, seconds / (total // (BLOCK * BLOCKS))
    position = 0
    for number in range(1, total // (BLOCK * BLOCKS) + 1):
        for run_id, source in zip(runs, sources, strict=True):
            data = await anext(source)
            for again in range(2 if count % 20 == 0 else 1):
                position = await archived.rig.publisher.publish(
                    telemetry_subject(run_id, 1, "step"), data, {MESSAGE_ID: f"{run_id}:{number}:{again}"}
                )
            count += 1
        await asyncio.sleep(pause)
    return position


async def kill_at_random(
    archived: Archived, chance: random.Random, kills: int = KILLS, **settings: str
) -> None:
    for _ in range(kills):
        service = archived.start(**settings)
        await asyncio.sleep(chance.uniform(1.5, 4.0))
        service.kill()


async def found_in_segments(archived: Archived, run_id: str, partitions: int = 1) -> np.ndarray[Any, Any]:
    """Counters of all steps, as the archive holds them."""
    store = SegmentStore(archived.blobs, 1 << 20)
    archive = await archived.archive(partition_of(run_id, partitions), partitions)
    counters = []
    async for arrival in ArchivedHistory(store).arrivals("steps", archive.of(run_id, "steps"), 0, {}):
        for block in arrival.batch.steps.blocks:
            actions = np.frombuffer(block.action.data, "<i8")
            rewards = np.frombuffer(block.reward.data, "<f8")
            assert actions[0] == block.global_step == rewards[0]
            counters.append(actions)
    return np.concatenate(counters)


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_killed_ten_times_ingest_loses_nothing_and_doubles_nothing(archived: Archived) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    runs = [await archived.rig.submit("true") for _ in range(2)]
    settings = {"RUNSPINE_INGEST_COMMIT_SECONDS": "0.5", "RUNSPINE_INGEST_COMMIT_MIB": "1"}
    total = STEPS // len(runs)
    sending = asyncio.ensure_future(send(archived, runs, total, seconds=KILLS * 2.2))
    await kill_at_random(archived, random.Random(seed), **settings)  # type: ignore[arg-type]
    last = await sending
    archived.start(**settings)
    await archived.archived_to(last, 60)
    await archived.trimmed_to(last, 60)
    assert (await archived.rig.log.extent(TELEMETRY)).commits == 0
    for run_id in runs:
        counters = await found_in_segments(archived, run_id)
        assert len(counters) == total, "lost or doubled"
        assert np.array_equal(np.sort(counters), np.arange(total))
        archive = await archived.archive()
        assert sum(segment.rows for segment in archive.of(run_id, "steps")) == total


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_replicas_that_share_the_runs_and_are_killed_keep_each_step_once(archived: Archived) -> None:
    """Two partitions, two processes for each: one leads, the other takes over, all of them are killed."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    runs = await runs_of_both_partitions(archived)
    settings = {
        "RUNSPINE_INGEST_PARTITIONS": "2",
        "RUNSPINE_INGEST_COMMIT_SECONDS": "0.5",
        "RUNSPINE_INGEST_COMMIT_MIB": "1",
        "RUNSPINE_INGEST_TAKEOVER_SECONDS": "1",
    }
    total = STEPS // 3 // len(runs) // (BLOCK * BLOCKS) * (BLOCK * BLOCKS)
    sending = asyncio.ensure_future(send(archived, runs, total, seconds=10))
    replicas = [{**settings, "RUNSPINE_INGEST_PARTITION_INDEX": str(n % 2)} for n in range(4)]
    await asyncio.gather(*(kill_at_random(archived, chance, 3, **each) for each in replicas))
    last = await sending
    for each in replicas[:2]:
        archived.start(**each)
    await archived.trimmed_to(last, 90)
    assert (await archived.rig.log.extent(TELEMETRY)).commits == 0
    for run_id in runs:
        counters = await found_in_segments(archived, run_id, partitions=2)
        assert len(counters) == total, "lost or doubled"
        assert np.array_equal(np.sort(counters), np.arange(total))


async def runs_of_both_partitions(archived: Archived) -> list[str]:
    found: dict[int, str] = {}
    while len(found) < 2:
        run_id = await archived.rig.submit("true")
        found.setdefault(partition_of(run_id, 2), run_id)
    return list(found.values())
