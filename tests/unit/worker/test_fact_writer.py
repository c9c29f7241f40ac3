"""The worker's facts are stored once, whatever the log answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runspine.eventlog import ConflictError, Recorded, UnknownOutcomeError, Version
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.memory import MemoryLog
from runspine.eventlog.subjects import attempts_subject
from runspine.services.worker.facts import fact_writer
from runspine.services.worker.facts.fact_writer import FactWriter
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
