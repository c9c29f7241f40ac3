"""A reader's state and cursor survive restarts, bad snapshots and a log that went backwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runspine.eventlog import Recorded, Version
from runspine.eventlog.memory import MemoryLog
from runspine.eventlog.projection import LogWentBackwardsError, Projector
from runspine.ids import new_ulid
from runspine.settings import ServiceSettings
from runspine.storage.blobs import S3Blobs
from runspine.wire.v1.facts_pb2 import Fact, RunQueued
from runspine.wire.v1.run_pb2 import Quarantine
from tests.kit.servers.s3 import S3Server

Connect = Callable[..., Awaitable[Any]]


class Sum:
    """Adds up attempts and counts the commits it was fed."""

    schema = 1
    streams: tuple[str, ...] = ("RUNS",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0
        self.fed = 0

    def apply(self, recorded: Recorded) -> None:
        self.fed += 1
        self.total += sum(fact.run_queued.attempt for fact in recorded.commit.facts)

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        raise AssertionError(quarantine)

    def dump(self) -> bytes:
        return str(self.total).encode()

    def load(self, state: bytes) -> None:
        self.total = int(state)


@pytest.fixture
async def blobs(s3_server: S3Server) -> S3Blobs:
    return await s3_server.ready()


async def grow(log: Any, count: int, subject: str = "runs.a") -> None:
    for _ in range(count):
        _, version = await log.read(subject)
        await log.append(subject, [Fact(at=1, run_queued=RunQueued(attempt=1))], expected=version)


async def test_a_restart_goes_on_from_the_snapshot(connect: Connect, blobs: S3Blobs) -> None:
    log, name = (await connect("r")).log, new_ulid()
    await grow(log, 30)
    first = Sum(name)
    projector = Projector(log, blobs, first)
    await projector.start()
    await projector.snapshot()
    await grow(log, 5)
    second = Sum(name)
    await Projector(log, blobs, second).start()
    assert (first.total, first.fed) == (30, 30)
    assert (second.total, second.fed) == (35, 5)


async def test_a_damaged_snapshot_is_passed_over(connect: Connect, blobs: S3Blobs) -> None:
    log, name = (await connect("r")).log, new_ulid()
    await grow(log, 4)
    projector = Projector(log, blobs, Sum(name))
    await projector.start()
    await projector.snapshot()
    await grow(log, 1)
    await blobs.put(f"snapshots/{name}/99999999999999999999", b"x" * 100)
    after = Sum(name)
    await Projector(log, blobs, after).start()
    assert (after.total, after.fed) == (5, 1)


async def test_only_the_newest_snapshots_are_kept(blobs: S3Blobs) -> None:
    log, name = MemoryLog(), new_ulid()
    projector = Projector(log, blobs, Sum(name))
    for _ in range(6):
        await grow(log, 1)
        await projector.start()
        await projector.snapshot()
    assert len(await blobs.keys(f"snapshots/{name}/")) == 3


async def test_a_log_that_lost_commits_is_refused_not_silently_taken(blobs: S3Blobs) -> None:
    name, whole = new_ulid(), MemoryLog()
    await grow(whole, 10)
    projector = Projector(whole, blobs, Sum(name))
    await projector.start()
    await projector.snapshot()
    for kept in (6, 12):
        other = MemoryLog()
        await grow(other, kept)
        with pytest.raises(LogWentBackwardsError, match="RUNS ends at"):
            await Projector(other, blobs, Sum(name)).start()


async def test_without_s3_the_log_itself_is_read(connect: Connect) -> None:
    log = (await connect("r")).log
    await grow(log, 3)
    nowhere = S3Blobs(ServiceSettings(s3_endpoint="127.0.0.1:1"))
    state = Sum(new_ulid())
    projector = Projector(log, nowhere, state)
    await projector.start()
    await projector.snapshot()
    assert state.total == 3
    assert "S3 at 127.0.0.1:1" in projector.snapshot_trouble


async def test_a_caller_that_waits_for_a_position_is_notified_when_it_is_reached() -> None:
    log = MemoryLog()
    projector = Projector(log, None, Sum("s"))
    await projector.start()
    following = asyncio.create_task(projector.follow("RUNS"))
    assert not await projector.reached("RUNS", 1, timeout=0.05)
    waiting = asyncio.create_task(projector.reached("RUNS", 1))
    await log.append("runs.a", [Fact(at=1, run_queued=RunQueued(attempt=1))], expected=Version())
    assert await waiting
    following.cancel()
