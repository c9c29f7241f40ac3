"""One suite over every adapter of the log: what memory promises, JetStream keeps, and the reverse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runspine.eventlog import ConflictError, EventLog, Version
from runspine.eventlog.memory import MemoryLog
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact, RunQueued

Open = Callable[[], Awaitable[EventLog]]


def fact(attempt: int) -> Fact:
    return Fact(at=1, run_queued=RunQueued(attempt=attempt))


@pytest.fixture(params=["memory", "jetstream"])
def open_log(request: pytest.FixtureRequest) -> Open:
    """Independent writers of one log."""
    if request.param == "memory":
        shared = MemoryLog()

        async def open_memory() -> EventLog:
            return shared

        return open_memory
    connect = request.getfixturevalue("connect")

    async def open_jetstream() -> EventLog:
        log: EventLog = (await connect(new_ulid())).log
        return log

    return open_jetstream


async def test_what_is_appended_is_read_back_in_order(open_log: Open) -> None:
    log = await open_log()
    version = Version()
    for attempt in (1, 2, 3):
        version = await log.append("runs.a", [fact(attempt), fact(attempt + 10)], expected=version)
    history, read_version = await log.read("runs.a")
    assert [[f.run_queued.attempt for f in r.commit.facts] for r in history] == [[1, 11], [2, 12], [3, 13]]
    assert [r.commit.number for r in history] == [1, 2, 3]
    assert read_version == version


async def test_a_subject_without_commits_is_empty(open_log: Open) -> None:
    assert await (await open_log()).read("runs.nobody") == ([], Version())


async def test_a_stale_writer_is_refused_and_nothing_is_stored(open_log: Open) -> None:
    log = await open_log()
    first = await log.append("runs.a", [fact(1)], expected=Version())
    await log.append("runs.a", [fact(2)], expected=first)
    with pytest.raises(ConflictError):
        await log.append("runs.a", [fact(3)], expected=first)
    with pytest.raises(ConflictError):
        await log.append("runs.a", [fact(3)], expected=Version())
    history, _ = await log.read("runs.a")
    assert len(history) == 2


async def test_an_append_that_expects_the_end_of_the_stream_is_refused_after_any_other(
    open_log: Open,
) -> None:
    log = await open_log()
    first = await log.append("runs.a", [fact(1)], expected=Version())
    second = await log.append("runs.b", [fact(1)], expected=Version(), stream_end=first.sequence)
    commit_id = new_ulid()
    with pytest.raises(ConflictError, match="RUNS"):
        await log.append("runs.a", [fact(2)], expected=first, stream_end=first.sequence, commit_id=commit_id)
    assert len((await log.read("runs.a"))[0]) == 1
    third = await log.append("runs.a", [fact(2)], expected=first, stream_end=second.sequence)
    assert third.number == 2
    # Under the same id it is stored once, although the stream no longer ends where it did.
    again = new_ulid()
    stored = await log.append("runs.a", [fact(3)], expected=third, stream_end=third.sequence, commit_id=again)
    repeated = await log.append(
        "runs.a", [fact(3)], expected=third, stream_end=third.sequence, commit_id=again
    )
    assert repeated == stored


async def test_an_append_retried_under_the_same_id_is_stored_once(open_log: Open) -> None:
    log = await open_log()
    commit_id = new_ulid()
    first = await log.append("runs.a", [fact(1)], expected=Version(), commit_id=commit_id)
    again = await log.append("runs.a", [fact(1)], expected=Version(), commit_id=commit_id)
    assert again == first
    assert len((await log.read("runs.a"))[0]) == 1


async def test_eight_racing_writers_on_300_subjects_have_one_winner_each(open_log: Open) -> None:
    logs = [await open_log() for _ in range(8)]
    wins: dict[str, int] = {}

    async def race(log: EventLog, writer: int) -> None:
        for number in range(300):
            subject = f"runs.r{number}"
            try:
                await log.append(subject, [fact(writer)], expected=Version())
            except ConflictError:
                continue
            wins[subject] = wins.get(subject, 0) + 1

    await asyncio.gather(*(race(log, writer) for writer, log in enumerate(logs)))
    assert len(wins) == 300
    assert set(wins.values()) == {1}
    for number in (0, 150, 299):
        assert len((await logs[0].read(f"runs.r{number}"))[0]) == 1


async def test_a_follower_sees_history_and_then_what_comes_each_once(open_log: Open) -> None:
    log = await open_log()
    version = Version()
    for attempt in range(5):
        version = await log.append("runs.a", [fact(attempt)], expected=version)
    seen: list[int] = []

    async def follow() -> None:
        async for recorded in log.follow("RUNS"):
            seen.append(recorded.sequence)
            if len(seen) == 8:
                return

    task = asyncio.create_task(follow())
    for attempt in range(5, 8):
        version = await log.append("runs.a", [fact(attempt)], expected=version)
    await asyncio.wait_for(task, 60)
    assert seen == list(range(1, 9))


async def test_following_resumes_after_a_position_and_keeps_to_its_subject(open_log: Open) -> None:
    log = await open_log()
    for name in ("a", "b", "c"):
        version = await log.append(f"runs.{name}", [fact(1)], expected=Version())
        await log.append(f"runs.{name}", [fact(2)], expected=version)
    rest = [r.sequence async for r in log.follow("RUNS", after=4, live=False)]
    only_b = [r.subject async for r in log.follow("RUNS", subject="runs.b", live=False)]
    nothing = [r async for r in log.follow("RUNS", after=6, live=False)]
    assert rest == [5, 6]
    assert only_b == ["runs.b", "runs.b"]
    assert nothing == []


async def test_the_extent_has_first_last_and_count(open_log: Open) -> None:
    log = await open_log()
    assert (await log.extent("RUNS")).last == 0
    version = await log.append("runs.a", [fact(1)], expected=Version())
    await log.append("runs.a", [fact(2)], expected=version)
    extent = await log.extent("RUNS")
    assert (extent.first, extent.last, extent.commits) == (1, 2, 2)
    assert extent.bytes > 0


async def test_a_subject_with_more_commits_than_one_read_holds_is_read_whole(open_log: Open) -> None:
    log = await open_log()
    version = Version()
    for attempt in range(1203):
        version = await log.append("runs.long", [fact(attempt)], expected=version)
    history, _ = await log.read("runs.long")
    assert [r.commit.facts[0].run_queued.attempt for r in history] == list(range(1203))
