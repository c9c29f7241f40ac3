"""Reads and writes of the worker's facts that wait while the log is unavailable."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from runspine.eventlog import (
    ConflictError,
    CorruptError,
    EventLog,
    Extent,
    Recorded,
    UnknownOutcomeError,
    Version,
)
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.decider import CONFLICT_SECONDS, MAX_CONFLICT_PAUSES
from runspine.eventlog.port import AuthorCheck
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact

log = structlog.get_logger()

RETRY_SECONDS = 0.3
UNAVAILABLE_ERRORS = (UnknownOutcomeError, NatsUnreachableError)
# Histories that are kept for the next commit on their subject.
MAX_KEPT_HISTORIES = 32

Decide = Callable[[list[Fact]], list[Fact]]


class RetryingLog:
    """An event log whose reads and appends are repeated until there is an answer.

    Only ConflictError and CorruptError are raised.
    """

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log

    @property
    def authors(self) -> AuthorCheck | None:
        return self._log.authors

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


@dataclass(slots=True)
class _Subject:
    """A subject that is written to: one commit at a time, each on the history as the last one left it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    # None when it has to be read: at first, and when the outcome of an append is not known.
    history: list[Fact] | None = None
    version: Version = field(default_factory=Version)


class FactWriter:
    """Reads histories and commits facts, however long the log is unavailable.

    A history is read once: later commits append to it with the version that the last one left, and only a
    conflict with another writer has it read again. So a fact costs one request, however many came before.
    """

    def __init__(self, event_log: EventLog) -> None:
        self._log = RetryingLog(event_log)
        self._subjects: dict[str, _Subject] = {}

    async def read(self, subject: str) -> list[Fact]:
        """The facts of a subject, oldest first."""
        return (await self.read_version(subject))[0]

    async def read_version(self, subject: str) -> tuple[list[Fact], Version]:
        """The facts of a subject, and the version at which it stands."""
        history, version = await self._log.read(subject)
        return [fact for recorded in history for fact in recorded.commit.facts], version

    async def read_accepted(self, subject: str) -> tuple[list[Fact], Version]:
        """The same, up to the first problem when the subject is quarantined."""
        try:
            return await self.read_version(subject)
        except CorruptError as error:
            facts = [fact for recorded in error.accepted for fact in recorded.commit.facts]
            return facts, error.accepted[-1].version() if error.accepted else Version()

    async def commit(self, subject: str, decide: Decide) -> list[Fact]:
        """Decide on the newest history and append, again after each conflict; the facts appended.

        Commits on one subject take place in the order of their calls. `decide` must not keep or change the
        history; the same list grows from call to call until it is read again.
        """
        entry = self._entry(subject)
        entry.users += 1
        try:
            async with entry.lock:
                return await self._commit(subject, entry, decide)
        finally:
            entry.users -= 1

    async def _commit(self, subject: str, entry: _Subject, decide: Decide) -> list[Fact]:
        for conflicts in itertools.count():
            kept = entry.history is not None
            if entry.history is None:
                entry.history, entry.version = await self.read_version(subject)
            facts = decide(entry.history)
            if not facts and not kept:
                return []
            if not facts:
                # Another worker may have written since: nothing is left out on the word of an old history.
                entry.history = None
                continue
            history, entry.history = entry.history, None
            try:
                entry.version = await self._log.append(subject, facts, expected=entry.version)
            except ConflictError:
                await asyncio.sleep(CONFLICT_SECONDS * min(conflicts, MAX_CONFLICT_PAUSES))
                continue
            history.extend(facts)
            entry.history = history
            return facts
        raise AssertionError("unreachable")

    def _entry(self, subject: str) -> _Subject:
        entry = self._subjects.pop(subject, None) or _Subject()
        self._subjects[subject] = entry
        for name in list(self._subjects)[:-MAX_KEPT_HISTORIES]:
            if not self._subjects[name].users:
                del self._subjects[name]
        return entry


async def _pause(event: str, subject: str, error: Exception) -> None:
    log.info(event, subject=subject, error=str(error) or type(error).__name__)
    await asyncio.sleep(RETRY_SECONDS)
