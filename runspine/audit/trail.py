"""Writes a service's part of the audit trail to the log, in batches behind the calls."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator

import structlog
from prometheus_client import Counter

from runspine.audit.buffer import AuditBuffer
from runspine.clock import now_micros
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.port import ConflictError, EventLog, UnknownOutcomeError, Version
from runspine.eventlog.subjects import audit_subject
from runspine.ids import new_ulid
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.facts_pb2 import CallRecorded, Fact

log = structlog.get_logger()

CALLS = Counter("runspine_audit_calls", "Calls and refusals for the audit trail", ["outcome"])
WRITE_SECONDS = 0.25
RETRY_SECONDS = 1.0
MAX_TRIES = 5
LAST_WRITE_SECONDS = 2.0
MAX_FACTS_PER_COMMIT = 200
_OUTCOMES = {1: "done", 2: "refused", 3: "not_done"}


@contextlib.asynccontextmanager
async def writing(service: str, event_log: EventLog) -> AsyncIterator[AuditTrail]:
    """The trail of a service, written for the length of the block and once more at its end."""
    trail = AuditTrail(service)
    task = asyncio.create_task(trail.run(event_log), name="audit")
    try:
        yield trail
    finally:
        await cancel_and_wait(task)


class AuditTrail:
    """The audit trail of one process: a history of its own, chained like every history of the log.

    A call is on the log within a second of its end. What a killed process had not written is lost; changes
    of runs and artifacts are facts themselves, with the name of who made them.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self._buffer = AuditBuffer()
        self._subject = audit_subject(service, new_ulid())
        self._head = Version()

    def record(self, call: CallRecorded) -> None:
        """Add a call that has ended. Never waits."""
        CALLS.labels(_OUTCOMES.get(call.outcome, "unknown")).inc()
        call.service = self.service
        self._buffer.add(now_micros(), call)

    async def run(self, event_log: EventLog) -> None:
        """Write until cancelled, then what is left, if that is possible at once."""
        try:
            while True:
                await asyncio.sleep(WRITE_SECONDS)
                await self._write(event_log)
        finally:
            try:
                async with asyncio.timeout(LAST_WRITE_SECONDS):
                    await self._write(event_log)
            except TimeoutError:
                log.warning("audit.lost", reason="the log did not answer before the end of the process")

    async def _write(self, event_log: EventLog) -> None:
        facts = self._buffer.take(time.monotonic())
        for first in range(0, len(facts), MAX_FACTS_PER_COMMIT):
            await self._append(event_log, facts[first : first + MAX_FACTS_PER_COMMIT])

    async def _append(self, event_log: EventLog, facts: list[Fact]) -> None:
        commit_id = new_ulid()
        for tried in itertools.count(1):
            try:
                self._head = await event_log.append(
                    self._subject, facts, expected=self._head, commit_id=commit_id
                )
                return
            except (ConflictError, UnknownOutcomeError, NatsUnreachableError) as error:
                log.warning("audit.waiting", error=str(error))
                if isinstance(error, ConflictError) or tried % MAX_TRIES == 0:
                    # The service may not read where its commit is. A new history is whole from its first
                    # commit; the commit's id stays, so that it is stored once.
                    self._subject, self._head = audit_subject(self.service, new_ulid()), Version()
                await asyncio.sleep(RETRY_SECONDS)
