"""Which calls of the audit trail a search asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from runspine.wire.v1.facts_pb2 import REFUSED, CallRecorded, Fact
from runspine.wire.v1.trainer_pb2 import AuditEntry, SearchAuditRequest


def entries_of(request: SearchAuditRequest, sequence: int, facts: Iterable[Fact]) -> list[AuditEntry]:
    """The matching calls of one commit, newest first."""
    found = [
        AuditEntry(at=fact.at, call=fact.call_recorded, sequence=sequence)
        for fact in facts
        if fact.WhichOneof("kind") == "call_recorded" and matches(request, fact.at, fact.call_recorded)
    ]
    return found[::-1]


def matches(request: SearchAuditRequest, at: int, call: CallRecorded) -> bool:
    texts = (call.target, call.peer, call.forwarded, call.reason, call.request_id)
    return (
        at >= request.since
        and request.caller in ("", call.caller)
        and request.method.lower() in ("", call.method.lower())
        and (not request.refused or call.outcome == REFUSED)
        and (not request.text or any(request.text.lower() in text.lower() for text in texts))
    )
