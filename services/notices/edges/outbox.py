"""Appends decisions on the notices of a run, each on the newest history this process has read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runspine.eventlog import ConflictError, EventLog, UnknownOutcomeError
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import NOTICES, notices_subject
from runspine.ids import new_ulid
from runspine.notice.history import NoticeHistory
from runspine.services.notices.core.projection import NoticeProjection
from runspine.wire.v1.facts_pb2 import Fact

LOCKS = 256
# After a conflict the commit that was first is waited for.
CONFLICT_SECONDS = 2.0


class Outbox:
    """The only writer of notices.<run_id> in this process."""

    def __init__(self, event_log: EventLog, projector: Projector, projection: NoticeProjection) -> None:
        self._log = event_log
        self._projector = projector
        self._book = projection.book
        # Of this process's own appends to a run, one at a time.
        self._locks = [asyncio.Lock() for _ in range(LOCKS)]

    async def append(self, run_id: str, decide: Callable[[NoticeHistory], list[Fact]]) -> list[Fact]:
        """Decide and append until no other process was first; the facts, once the book has them.

        Raises UnknownOutcomeError and NatsUnreachableError.
        """
        async with self._locks[hash(run_id) % LOCKS]:
            while True:
                facts = decide(self._book.history(run_id))
                if not facts:
                    return []
                try:
                    position = await self._store(run_id, facts)
                except ConflictError:
                    await self._wait_for_other(run_id)
                    continue
                if not await self._projector.reached(NOTICES, position, timeout=30.0):
                    raise UnknownOutcomeError(f"{notices_subject(run_id)}: stored, but not read yet")
                return facts

    async def _store(self, run_id: str, facts: list[Fact]) -> int:
        subject, expected, commit_id = notices_subject(run_id), self._book.version(run_id), new_ulid()
        try:
            version = await self._log.append(subject, facts, expected=expected, commit_id=commit_id)
        except UnknownOutcomeError:
            version = await self._log.append(subject, facts, expected=expected, commit_id=commit_id)
        return version.sequence

    async def _wait_for_other(self, run_id: str) -> None:
        """Wait until the commit that was first is read. One on another subject does not count."""
        end = (await self._log.extent(NOTICES)).last
        await self._projector.reached(NOTICES, end, timeout=CONFLICT_SECONDS)
