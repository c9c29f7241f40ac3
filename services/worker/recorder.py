"""Puts the worker's facts on the log, however long the log is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from runspine.ids import new_ulid
from runspine.log import Conflict, EventLog, Recorded, Unknown, Version
from runspine.log.link import Unreachable
from runspine.wire.v1.facts_pb2 import Fact

log = structlog.get_logger()

AGAIN_SECONDS = 0.3
AWAY = (Unknown, Unreachable)

Decide = Callable[[list[Fact]], list[Fact]]


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Recorder:
    """Reads and appends until there is an answer. Only a Conflict or damage comes back."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log

    async def read(self, subject: str) -> tuple[list[Fact], Version]:
        while True:
            try:
                history, version = await self._log.read(subject)
            except AWAY as error:
                await self._wait("log.waiting", subject, error)
            else:
                return facts_of(history), version

    async def append(self, subject: str, facts: list[Fact], expected: Version) -> Version:
        """Raises Conflict. An unanswered append is repeated under its own id, so it happens once."""
        commit_id = new_ulid()
        while True:
            try:
                return await self._log.append(subject, facts, expected=expected, commit_id=commit_id)
            except AWAY as error:
                await self._wait("log.unanswered", subject, error)

    async def settle(self, subject: str, decide: Decide) -> list[Fact]:
        """Decide on the newest history and append; again when another writer was first."""
        while True:
            history, version = await self.read(subject)
            facts = decide(history)
            if not facts:
                return []
            try:
                await self.append(subject, facts, version)
            except Conflict:
                continue
            return facts

    async def _wait(self, event: str, subject: str, error: Exception) -> None:
        log.info(event, subject=subject, error=str(error) or type(error).__name__)
        await asyncio.sleep(AGAIN_SECONDS)


def facts_of(history: list[Recorded]) -> list[Fact]:
    return [fact for recorded in history for fact in recorded.commit.facts]
