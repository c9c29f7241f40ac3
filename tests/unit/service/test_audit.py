"""The audit trail: what is recorded, how it is bounded, and what becomes of it when the log is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runspine.audit import trail as module
from runspine.audit.buffer import GROUP_SECONDS, MAX_GROUPS, MAX_WAITING, OTHERS, AuditBuffer
from runspine.audit.trail import writing
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.memory import MemoryLog
from runspine.eventlog.port import UnknownOutcomeError, Version
from runspine.eventlog.subjects import AUDIT
from runspine.rpc.call_records import peer_host
from runspine.services.orchestrator.core.audit_filter import matches
from runspine.services.orchestrator.edges import audit_search
from runspine.services.orchestrator.edges.audit_search import search_audit
from runspine.wire.v1.facts_pb2 import DONE, REFUSED, CallRecorded
from runspine.wire.v1.trainer_pb2 import SearchAuditRequest
from tests.kit.waiting import eventually


def done(number: int) -> CallRecorded:
    return CallRecorded(caller="anna", method="Submit", target=f"run-{number}", outcome=DONE)


def refused(peer: str, method: str = "List") -> CallRecorded:
    return CallRecorded(method=method, peer=peer, code="UNAUTHENTICATED", outcome=REFUSED)


def test_each_change_of_a_person_is_a_record_of_its_own() -> None:
    buffer = AuditBuffer()
    for number in range(3):
        buffer.add(number, done(number))
    assert [fact.call_recorded.target for fact in buffer.take(0)] == ["run-0", "run-1", "run-2"]
    assert buffer.take(1) == []


def test_equal_refusals_are_one_record_a_minute_with_a_count_and_the_first_is_there_at_once() -> None:
    buffer = AuditBuffer()
    buffer.add(1, refused("10.0.0.1"))
    assert [fact.call_recorded.count for fact in buffer.take(0)] == [1]
    for at in range(2, 1000):
        buffer.add(at, refused("10.0.0.1"))
    assert buffer.take(1) == []
    [fact] = buffer.take(GROUP_SECONDS + 1)
    assert (fact.call_recorded.count, fact.at) == (998, 999)


def test_strangers_with_many_addresses_and_methods_cannot_fill_the_disk() -> None:
    buffer, written = AuditBuffer(), 0
    for minute in range(10):
        for number in range(5_000):
            buffer.add(number, refused(f"10.{minute}.{number // 256}.{number % 256}", f"M{number % 7}"))
        written += len(buffer.take(minute * (GROUP_SECONDS + 1)))
    assert written <= 10 * (MAX_GROUPS + 1)


def test_what_is_too_much_is_counted_and_not_lost() -> None:
    buffer = AuditBuffer()
    for number in range(MAX_GROUPS + 50):
        buffer.add(number, refused(str(number)))
    for number in range(MAX_WAITING + 70):
        buffer.add(number, done(number))
    calls = [fact.call_recorded for fact in buffer.take(0)]
    others = [call.count for call in calls if call.peer == OTHERS]
    assert others == [50]
    assert sum(call.count or 1 for call in calls if call.caller == "anna") == MAX_WAITING + 70


def test_texts_of_strangers_are_cut() -> None:
    buffer = AuditBuffer()
    buffer.add(0, CallRecorded(method="x" * 10_000, request_id="y" * 10_000, outcome=REFUSED))
    [fact] = buffer.take(0)
    assert fact.ByteSize() < 400


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:5", "127.0.0.1"),
        ("ipv6:%5B::1%5D:5", "::1"),
        ("ipv6:[2001:db8::1]:50055", "2001:db8::1"),
        ("unix:/x", "unix:/x"),
    ],
)
def test_an_address_has_no_port(peer: str, host: str) -> None:
    assert peer_host(peer) == host


async def test_a_trail_is_chained_searched_and_found_changed_when_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.01)
    monkeypatch.setattr(audit_search, "COMMITS_PER_READ", 2)
    log = MemoryLog()
    for service in ("orchestrator", "dashboard"):
        async with writing(service, log) as trail:
            for number in range(5):
                trail.record(done(number))
                await asyncio.sleep(0.02)
            trail.record(refused("10.9.9.9"))
    verifier = ChainVerifier(AUDIT)
    async for one in log.follow(AUDIT, live=False):
        verifier.feed(one.sequence, one.subject, one.data, one.digest)
    assert (verifier.finish(0), len(verifier.heads)) == ([], 2)

    everything = await search_audit(log, SearchAuditRequest(limit=1000))
    assert len(everything.entries) == 12
    assert [one.sequence for one in everything.entries] == sorted(
        (one.sequence for one in everything.entries), reverse=True
    )
    found = await search_audit(log, SearchAuditRequest(refused=True))
    assert [(one.call.service, one.call.peer) for one in found.entries] == [
        ("dashboard", "10.9.9.9"),
        ("orchestrator", "10.9.9.9"),
    ]
    first = await search_audit(log, SearchAuditRequest(limit=1))
    second = await search_audit(log, SearchAuditRequest(limit=1000, before=first.next_before))
    assert [*first.entries, *second.entries] == list(everything.entries)
    assert second.next_before == 0


async def test_what_the_log_did_not_take_is_written_later_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    class Failing(MemoryLog):
        tries = 0

        async def append(self, *words: Any, **named: Any) -> Version:
            self.tries += 1
            if self.tries < 8:
                raise UnknownOutcomeError("no reply")
            return await super().append(*words, **named)

    log = Failing()
    async with writing("telemetry", log) as trail:
        trail.record(done(1))

        async def written() -> bool:
            return (await log.extent(AUDIT)).last == 1

        await eventually(written, 10)


def test_a_search_matches_what_it_names() -> None:
    call = CallRecorded(caller="anna", method="Cancel", target="01ABC", peer="10.0.0.1", outcome=REFUSED)
    assert matches(SearchAuditRequest(), 5, call)
    assert matches(
        SearchAuditRequest(caller="anna", method="cancel", text="01a", refused=True, since=5), 5, call
    )
    for other in ({"caller": "ann"}, {"method": "Submit"}, {"text": "zz"}, {"since": 6}):
        assert not matches(SearchAuditRequest(**other), 5, call)
    call.outcome = DONE
    assert not matches(SearchAuditRequest(refused=True), 5, call)
