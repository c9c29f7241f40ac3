"""The worker's facts are stored once, whatever the log answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from runspine.eventlog import ConflictError, Recorded, UnknownOutcomeError, Version
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.memory import MemoryLog
from runspine.eventlog.subjects import attempts_subject
from runspine.services.worker.facts import fact_writer
from runspine.services.worker.facts.fact_writer import Decide, FactWriter
from runspine.wire.v1.facts_pb2 import AttemptStarted, Fact

SUBJECT = attempts_subject("r1")
FACT = Fact(at=1, attempt_started=AttemptStarted(attempt=1, worker_id="w1"))


class FailingLog(MemoryLog):
    """Raises the given errors first; a lost reply is one of an append that was stored."""

    def __init__(self, reads: Sequence[Exception] = (), appends: Sequence[Exception] = ()) -> None:
        super().__init__()
        self.reads, self.appends = list(reads), list(appends)
        self.decisions = 0

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        if self.reads:
            raise self.reads.pop(0)
        return await super().read(subject)

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
        stream_end: int | None = None,
    ) -> Version:
        if self.appends:
            error = self.appends.pop(0)
            if isinstance(error, UnknownOutcomeError):
                await super().append(subject, facts, expected=expected, commit_id=commit_id)
            raise error
        return await super().append(
            subject, facts, expected=expected, commit_id=commit_id, stream_end=stream_end
        )

    def decide(self, history: list[Fact]) -> list[Fact]:
        self.decisions += 1
        return [] if history else [FACT]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_writer, "RETRY_SECONDS", 0.0)


async def test_a_commit_waits_while_the_log_is_unavailable() -> None:
    away = NatsUnreachableError("no server")
    log = FailingLog(reads=[away, away], appends=[away, away, away])
    assert await FactWriter(log).commit(SUBJECT, log.decide) == [FACT]
    assert await FactWriter(log).read(SUBJECT) == [FACT]
    assert log.decisions == 1, "an append without an answer is repeated, not decided again"


async def test_an_append_whose_reply_was_lost_is_stored_once() -> None:
    log = FailingLog(appends=[UnknownOutcomeError("no reply"), NatsUnreachableError("no server")])
    assert await FactWriter(log).commit(SUBJECT, log.decide) == [FACT]
    assert await FactWriter(log).read(SUBJECT) == [FACT]
    assert log.decisions == 1


async def test_any_number_of_conflicts_is_decided_again() -> None:
    log = FailingLog(appends=[ConflictError("another writer")] * 8)
    assert await FactWriter(log).commit(SUBJECT, log.decide) == [FACT]
    assert log.decisions == 9


async def test_a_decision_without_facts_appends_nothing() -> None:
    log = FailingLog()
    assert await FactWriter(log).commit(SUBJECT, log.decide) == [FACT]
    assert await FactWriter(log).commit(SUBJECT, log.decide) == []
    facts, version = await FactWriter(log).read_version(SUBJECT)
    assert (facts, version.number) == ([FACT], 1)


async def test_a_fact_costs_one_request_however_many_came_before() -> None:
    log = CountingLog()
    writer = FactWriter(log)
    for number in range(300):
        await writer.commit(SUBJECT, one_after(number))
    assert (log.reads, log.appends) == (1, 300)


async def test_a_history_that_another_worker_has_continued_is_read_again() -> None:
    log = MemoryLog()
    mine, other = FactWriter(log), FactWriter(log)
    await mine.commit(SUBJECT, lambda _: [FACT])
    await other.commit(SUBJECT, lambda _: [Fact(at=2)])
    seen: list[int] = []

    def decide(history: list[Fact]) -> list[Fact]:
        seen.append(len(history))
        return [Fact(at=3)]

    await mine.commit(SUBJECT, decide)
    assert seen == [1, 2]
    assert [fact.at for fact in await mine.read(SUBJECT)] == [1, 2, 3]


async def test_nothing_is_left_out_on_the_word_of_an_old_history() -> None:
    log = MemoryLog()
    mine, other = FactWriter(log), FactWriter(log)
    await mine.commit(SUBJECT, lambda _: [FACT])
    await other.commit(SUBJECT, lambda _: [Fact(at=2)])
    appended = await mine.commit(SUBJECT, lambda history: [Fact(at=3)] if len(history) > 1 else [])
    assert [fact.at for fact in appended] == [3]


async def test_commits_on_one_subject_do_not_conflict_with_each_other() -> None:
    log = CountingLog()
    writer = FactWriter(log)
    await asyncio.gather(*(writer.commit(SUBJECT, one_after(number)) for number in range(200)))
    assert (log.reads, log.appends) == (1, 200)
    assert [fact.at for fact in await writer.read(SUBJECT)] == list(range(200))


async def test_a_commit_that_was_cancelled_leaves_no_guess_of_the_history() -> None:
    log = FailingLog(appends=[UnknownOutcomeError("lost"), asyncio.CancelledError()])  # type: ignore[list-item]
    writer = FactWriter(log)
    with pytest.raises(asyncio.CancelledError):
        await writer.commit(SUBJECT, lambda _: [FACT])
    assert await writer.commit(SUBJECT, log.decide) == []


def one_after(count: int) -> Decide:
    """One more fact on a history of so many."""
    return lambda history: [Fact(at=count)] if len(history) == count else []


class CountingLog(MemoryLog):
    """Counts requests."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.appends = 0
        self._inside = False

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        self.reads += not self._inside
        return await super().read(subject)

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
        stream_end: int | None = None,
    ) -> Version:
        self.appends += 1
        self._inside = True
        try:
            return await super().append(
                subject, facts, expected=expected, commit_id=commit_id, stream_end=stream_end
            )
        finally:
            self._inside = False
