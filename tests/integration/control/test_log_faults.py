"""The log on a server that dies, freezes, and is tampered with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runspine.eventlog import ConflictError, UnknownOutcomeError, Version
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import MessageTooLargeError
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact, RunFailed, RunQueued
from tests.kit.servers.nats import NatsServer

Connect = Callable[..., Awaitable[Any]]


def fact(number: int) -> Fact:
    return Fact(at=number, run_queued=RunQueued(attempt=number))


async def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(
    connect: Connect, nats_server: NatsServer
) -> None:
    client, reader = await connect("writer", timeout=60), await connect("reader")
    log: JetStreamLog = client.log
    acknowledged: dict[str, int] = {}
    seen: list[int] = []
    stop = asyncio.Event()

    async def write(subject: str) -> None:
        version, number = Version(), 0
        while not stop.is_set():
            number += 1
            version = await log.append(subject, [fact(number)], expected=version)
            acknowledged[subject] = number

    async def follow() -> None:
        async for recorded in reader.log.follow("RUNS"):
            seen.append(recorded.sequence)

    follower = asyncio.create_task(follow())
    writers = [asyncio.create_task(write(f"runs.w{n}")) for n in range(8)]

    async def moved_on() -> None:
        """Each writer has been answered again, twice."""
        before = {f"runs.w{n}": acknowledged.get(f"runs.w{n}", 0) for n in range(8)}
        async with asyncio.timeout(90):
            while any(acknowledged.get(subject, 0) < count + 2 for subject, count in before.items()):
                await asyncio.sleep(0.02)

    for _ in range(3):
        await moved_on()
        nats_server.kill()
        nats_server.start()
    await moved_on()
    stop.set()
    await asyncio.gather(*writers)
    total = (await log.extent("RUNS")).last
    deadline = time.monotonic() + 90
    while len(seen) < total and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    follower.cancel()
    assert min(acknowledged.values()) > 3
    for subject, count in acknowledged.items():
        history, _ = await log.read(subject)
        assert [r.commit.facts[0].run_queued.attempt for r in history] == list(range(1, count + 1))
    assert seen == list(range(1, total + 1))


async def test_a_reader_goes_on_with_the_new_connection(connect: Connect, nats_server: NatsServer) -> None:
    """It does not wait for the heartbeats of a consumer that has gone with the server."""
    writer, reader = await connect("writer", timeout=60), await connect("reader")
    await writer.log.append("runs.a", [fact(1)], expected=Version())
    arrived: list[int] = []

    async def follow() -> None:
        async for recorded in reader.log.follow("RUNS"):
            arrived.append(recorded.sequence)

    follower = asyncio.create_task(follow())
    while not arrived:
        await asyncio.sleep(0.01)
    generation = reader.link.generation
    nats_server.kill()
    nats_server.start()
    assert await reader.link.changed_since(generation, 60)
    reconnected = time.monotonic()
    _, version = await writer.log.read("runs.a")
    await writer.log.append("runs.a", [fact(2)], expected=version)
    async with asyncio.timeout(60):
        while len(arrived) < 2:
            await asyncio.sleep(0.01)
    seconds = time.monotonic() - reconnected
    follower.cancel()
    assert seconds < 2.5, "less than three heartbeats"


async def test_an_append_to_a_frozen_server_is_unknown_and_its_retry_is_stored_once(
    connect: Connect, nats_server: NatsServer
) -> None:
    client, patient = await connect("writer", timeout=1.0), await connect("reader", timeout=60)
    commit_id = new_ulid()
    with nats_server.frozen(), pytest.raises(UnknownOutcomeError):
        await client.log.append("runs.a", [fact(1)], expected=Version(), commit_id=commit_id)
    async with asyncio.timeout(90):
        while True:
            try:
                await client.log.append("runs.a", [fact(1)], expected=Version(), commit_id=commit_id)
                break
            except UnknownOutcomeError:
                continue
    history, version = await patient.log.read("runs.a")
    assert [r.commit.id for r in history] == [commit_id]
    with pytest.raises(ConflictError):
        await patient.log.append("runs.a", [fact(2)], expected=Version())
    assert version.number == 1


async def test_a_commit_too_large_for_the_server_is_refused_and_the_connection_lives(
    connect: Connect,
) -> None:
    client = await connect("writer")
    huge = Fact(at=1, run_failed=RunFailed(reason="x" * (1 << 20)))
    with pytest.raises(MessageTooLargeError):
        await client.log.append("runs.a", [huge], expected=Version())
    await client.log.append("runs.a", [fact(1)], expected=Version())


async def verify(log: JetStreamLog, witnesses: dict[int, bytes] | None = None) -> list[str]:
    verifier = ChainVerifier("RUNS", witnesses=witnesses or {})
    async for recorded in log.follow("RUNS", live=False):
        verifier.feed(recorded.sequence, recorded.subject, recorded.data, recorded.digest)
    return [str(problem) for problem in verifier.finish((await log.extent("RUNS")).last)]


async def grow(log: JetStreamLog, commits: int = 40) -> None:
    versions = {f"runs.r{n}": Version() for n in range(4)}
    for number in range(commits):
        subject = f"runs.r{number % 4}"
        versions[subject] = await log.append(subject, [fact(number)], expected=versions[subject])


async def test_a_whole_log_verifies(connect: Connect) -> None:
    client = await connect("writer")
    await grow(client.log)
    assert await verify(client.log) == []


async def test_a_flipped_byte_on_disk_is_named_by_its_place(
    connect: Connect, nats_server: NatsServer
) -> None:
    """The server itself silently drops what follows the damage; the witness of a snapshot knows better."""
    client = await connect("writer")
    await grow(client.log)
    head = [r async for r in client.log.follow("RUNS", live=False)][-1]
    nats_server.stop()
    block = next(nats_server.store.glob("**/streams/RUNS/msgs/1.blk"))
    data = bytearray(block.read_bytes())
    data[len(data) // 2] ^= 0x01
    block.write_bytes(data)
    nats_server.start()
    found_problems = await verify(client.log, {head.sequence: head.digest})
    assert found_problems, "one flipped bit must not go unseen"
    assert any(
        "had been written" in problem or "is missing" in problem or "changed" in problem
        for problem in found_problems
    )
    assert found_problems[0].startswith("RUNS ")


async def test_one_commit_removed_is_named_by_its_place(connect: Connect) -> None:
    client = await connect("writer")
    await grow(client.log)
    verifier = ChainVerifier("RUNS")
    async for recorded in client.log.follow("RUNS", live=False):
        if recorded.sequence != 18:
            verifier.feed(recorded.sequence, recorded.subject, recorded.data, recorded.digest)
    found_problems = [str(problem) for problem in verifier.finish(40)]
    assert found_problems == [
        "RUNS 18: position 18 is missing",
        "RUNS 22 on runs.r1: commit 5 is missing: commit 6 is next",
    ]


async def test_one_changed_byte_in_a_commit_is_named_by_its_place(connect: Connect) -> None:
    client = await connect("writer")
    await grow(client.log)
    for offset in (0, 5, -1):
        verifier = ChainVerifier("RUNS")
        async for recorded in client.log.follow("RUNS", live=False):
            data = bytearray(recorded.data)
            if recorded.sequence == 18:
                data[offset] ^= 0x20
            verifier.feed(recorded.sequence, recorded.subject, bytes(data), recorded.digest)
        assert [str(problem) for problem in verifier.finish(40)] == [
            "RUNS 18 on runs.r1: commit 5 was changed: its digest does not match"
        ]


async def test_a_stored_commit_cannot_be_deleted_or_purged(connect: Connect) -> None:
    client = await connect("writer")
    await grow(client.log)
    for verb, body in (("MSG.DELETE.RUNS", b'{"seq": 3}'), ("PURGE.RUNS", b"{}")):
        answer = await client.link.request(f"$JS.API.STREAM.{verb}", body)
        assert b'"error"' in answer.data, verb
    assert (await client.log.extent("RUNS")).commits == 40
