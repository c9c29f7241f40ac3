"""The log in memory, for tests of pure logic. The contract tests run on it, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from runspine.clock import now_micros
from runspine.eventlog.admission import accepted_history
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import AuthorCheck, ConflictError, Extent, Recorded, Version
from runspine.eventlog.subjects import stream_of
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact


class MemoryLog:
    """EventLog in memory."""

    def __init__(self, writer: str = "memory") -> None:
        self._writer = writer
        self.authors: AuthorCheck | None = None
        self._streams: dict[str, list[Recorded]] = {}
        self._changed = asyncio.Condition()

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        messages = [r for r in self._streams.get(stream_of(subject), []) if r.subject == subject]
        history = accepted_history(messages)
        return history, history[-1].version() if history else Version()

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
        stream_end: int | None = None,
    ) -> Version:
        history, version = await self.read(subject)
        if version != expected:
            if commit_id and history and history[-1].commit.id == commit_id:
                return version
            raise ConflictError(f"{subject} is at commit {version.number}, not {expected.number}")
        stream = stream_of(subject)
        records = self._streams.setdefault(stream, [])
        if stream_end is not None and len(records) != stream_end:
            raise ConflictError(f"{stream} ends at {len(records)}, not at {stream_end}")
        data = seal(expected, facts, commit_id or new_ulid(), self._writer)
        recorded = Recorded(stream, len(records) + 1, subject, data, digest_of(data), now_micros())
        records.append(recorded)
        async with self._changed:
            self._changed.notify_all()
        return recorded.version()

    async def follow(
        self, stream: str, *, after: int = 0, subject: str = "", live: bool = True
    ) -> AsyncGenerator[Recorded, None]:
        records = self._streams.setdefault(stream, [])
        end = len(records)
        position = after
        while live or position < end:
            while len(records) <= position:
                async with self._changed:
                    await self._changed.wait()
            recorded = records[position]
            position += 1
            if not subject or matches(subject, recorded.subject):
                yield recorded

    async def extent(self, stream: str) -> Extent:
        records = self._streams.get(stream, [])
        return Extent(min(1, len(records)), len(records), len(records), sum(len(r.data) for r in records))


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern of NATS: * for one token, > for the rest."""
    wanted, given = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(given) > index
        if index >= len(given) or token not in ("*", given[index]):
            return False
    return len(wanted) == len(given)
