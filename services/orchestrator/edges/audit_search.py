"""Search of the audit trail from its end backwards, in bounded pieces."""

from __future__ import annotations

from contextlib import aclosing

from runspine.eventlog import EventLog, Recorded
from runspine.eventlog.port import CorruptError
from runspine.eventlog.subjects import AUDIT
from runspine.services.orchestrator.core.audit_filter import entries_of
from runspine.wire.v1.trainer_pb2 import AuditEntry, SearchAuditRequest, SearchAuditResponse

DEFAULT_ENTRIES, MAX_ENTRIES = 100, 1_000
COMMITS_PER_READ = 500
# A search that finds little stops here; the next page continues.
MAX_COMMITS = 20_000


async def search_audit(log: EventLog, request: SearchAuditRequest) -> SearchAuditResponse:
    """Newest first. Pages end between commits, so that none is cut."""
    wanted = min(request.limit or DEFAULT_ENTRIES, MAX_ENTRIES)
    before = request.before or (await log.extent(AUDIT)).last + 1
    response, end = SearchAuditResponse(), max(0, before - MAX_COMMITS)
    while before > 1 and before > end and len(response.entries) < wanted:
        first = max(1, before - COMMITS_PER_READ)
        for recorded in reversed(await _read(log, first, before)):
            before = recorded.sequence
            response.entries.extend(_entries(request, recorded))
            if recorded.stored_at < request.since:
                return response
            if len(response.entries) >= wanted:
                break
        else:
            before = first
    response.next_before = before if before > 1 else 0
    return response


def _entries(request: SearchAuditRequest, recorded: Recorded) -> list[AuditEntry]:
    try:
        facts = recorded.commit.facts
    except CorruptError:
        return []  # `runspine audit --verify` names it
    return entries_of(request, recorded.sequence, facts)


async def _read(log: EventLog, first: int, before: int) -> list[Recorded]:
    found: list[Recorded] = []
    async with aclosing(log.follow(AUDIT, after=first - 1, live=False)) as records:
        async for recorded in records:
            if recorded.sequence >= before:
                break
            found.append(recorded)
    return found
