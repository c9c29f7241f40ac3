"""Commits of several streams in one queue, for watching clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Self

from runspine.eventlog import EventLog, Recorded
from runspine.tasks import cancel_and_wait

MAX_QUEUED = 64


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """One stream of a watch: commits on `subject` (all when empty) after a position."""

    stream: str
    subject: str = ""
    after: int = 0


class Arrivals:
    """Follows streams at once. Each is in order; the order between streams is that of arrival."""

    def __init__(self, log: EventLog, sources: Iterable[WatchedStream]) -> None:
        self._log = log
        self._sources = tuple(sources)
        self._queue: asyncio.Queue[Recorded] = asyncio.Queue(maxsize=MAX_QUEUED)
        self._readers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._readers = [asyncio.create_task(self._read(source)) for source in self._sources]
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_and_wait(*self._readers)

    async def next(self, deadline: float) -> Recorded | None:
        """The next commit, or None when there is none before the deadline of the loop's clock."""
        try:
            # Not wait_for: before Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout_at(deadline):
                return await self._queue.get()
        except TimeoutError:
            for reader in self._readers:
                if reader.done():
                    reader.result()
            return None

    async def _read(self, source: WatchedStream) -> None:
        records = self._log.follow(source.stream, after=source.after, subject=source.subject)
        async with aclosing(records):
            async for recorded in records:
                await self._queue.put(recorded)
