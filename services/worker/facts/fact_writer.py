"""Reads and writes of the worker's facts that wait while the log is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

import structlog

from runspine.eventlog import EventLog, Extent, Recorded, UnknownOutcomeError, Version
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.decider import handle
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact

log = structlog.get_logger()

RETRY_SECONDS = 0.3
UNAVAILABLE_ERRORS = (UnknownOutcomeError, NatsUnreachableError)

Decide = Callable[[list[Fact]], list[Fact]]


class RetryingLog:
    """An event log whose reads and appends are repeated until there is an answer.

    Only ConflictError and CorruptError are raised.
    """

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        while True:
            try:
                return await self._log.read(subject)
            except UNAVAILABLE_ERRORS as error:
                await _pause("log.waiting", subject, error)

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
        stream_end: int | None = None,
    ) -> Version:
        """An unanswered append is repeated under the same commit id, so it is stored once."""
        commit_id = commit_id or new_ulid()
        while True:
            try:
                return await self._log.append(
                    subject, facts, expected=expected, commit_id=commit_id, stream_end=stream_end
                )
            except UNAVAILABLE_ERRORS as error:
                await _pause("log.unanswered", subject, error)

    def follow(
        self, stream: str, *, after: int = 0, subject: str = "", live: bool = True
    ) -> AsyncGenerator[Recorded, None]:
        return self._log.follow(stream, after=after, subject=subject, live=live)

    async def extent(self, stream: str) -> Extent:
        return await self._log.extent(stream)


class FactWriter:
    """Reads histories and commits facts, however long the log is unavailable."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = RetryingLog(event_log)

    async def read(self, subject: str) -> list[Fact]:
        """The facts of a subject, oldest first."""
        return (await self.read_version(subject))[0]

    async def read_version(self, subject: str) -> tuple[list[Fact], Version]:
        """The facts of a subject, and the version at which it stands."""
        history, version = await self._log.read(subject)
        return [fact for recorded in history for fact in recorded.commit.facts], version

    async def commit(self, subject: str, decide: Decide) -> list[Fact]:
        """Decide on the newest history and append, again after each conflict; the facts appended."""
        return (await handle(self._log, subject, decide, _history, tries=None)).facts


def _history(facts: Iterable[Fact], before: list[Fact] | None) -> list[Fact]:
    return [*(before or ()), *facts]


async def _pause(event: str, subject: str, error: Exception) -> None:
    log.info(event, subject=subject, error=str(error) or type(error).__name__)
    await asyncio.sleep(RETRY_SECONDS)
