"""The log on NATS JetStream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

from prometheus_client import Counter

from runspine.eventlog.api import ask
from runspine.eventlog.authors import Authors
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.port import ConflictError, CorruptError, Extent, Recorded, UnknownOutcomeError, Version
from runspine.eventlog.publisher import EXPECTED, EXPECTED_END, MESSAGE_ID, Publisher, PublishRefusedError
from runspine.eventlog.reads import DIGEST, SubjectReader, stated_digest
from runspine.eventlog.server_errors import Verdict, sequence_in
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.eventlog.subjects import stream_of
from runspine.eventlog.tail import Tail
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact

CORRUPT = Counter("runspine_log_corrupt", "Histories read that do not form a whole chain")
# Pause before the outcome of a refused append is looked up again.
LOOK_SECONDS = 0.05


class JetStreamLog:
    """EventLog on JetStream: appends with an expected sequence, leaders' reads, ordered reading."""

    def __init__(
        self,
        link: NatsConnection,
        publisher: Publisher,
        *,
        timeout: float = 10.0,
        keyring: Keyring | None = None,
        key: SigningKey | None = None,
    ) -> None:
        self._link = link
        self._publisher = publisher
        self._timeout = timeout
        self._authors = Authors(link, publisher, keyring or Keyring(), key)
        self._reader = SubjectReader(link, self._authors)

    @property
    def authors(self) -> Keyring:
        return self._authors.keyring

    async def begin_signing(self) -> bool:
        """Record that unsigned commits no longer count from here on, unless that is recorded; see Authors."""
        return await self._authors.begin()

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        try:
            history = await self._reader.history(subject)
        except CorruptError:
            CORRUPT.inc()
            raise
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
        commit_id = commit_id or new_ulid()
        await self._authors.introduce()
        data = seal(expected, facts, commit_id, self._link.name, subject=subject, key=self._authors.key)
        digest = digest_of(data)
        self.authors.note_own(subject, digest)
        headers = {
            MESSAGE_ID: commit_id,
            EXPECTED: str(expected.sequence),
            DIGEST: digest.hex(),
        }
        if stream_end is not None:
            headers[EXPECTED_END] = str(stream_end)
        try:
            async with asyncio.timeout(self._timeout):
                sequence = await self._publisher.publish(subject, data, headers)
        except TimeoutError as error:
            raise UnknownOutcomeError(f"{subject}: no reply within {self._timeout} s") from error
        except PublishRefusedError as error:
            if error.verdict is not Verdict.CONFLICT:
                raise
            if stream_end is not None:
                return await self._own_or_moved(subject, commit_id, error)
            return await self._own_or_conflict(subject, expected, commit_id, error)
        return Version(sequence, expected.number + 1, digest)

    async def follow(
        self, stream: str, *, after: int = 0, subject: str = "", live: bool = True
    ) -> AsyncGenerator[Recorded, None]:
        end = None if live else await self._last_sequence(stream, subject)
        if end is not None and end <= after:
            return
        tail = Tail(self._link, stream, after=after, subject=subject, announced=end or 0)
        deliveries = tail.deliveries()
        try:
            async for delivery in deliveries:
                digest = stated_digest(delivery.headers)
                recorded = Recorded(
                    stream, delivery.sequence, delivery.subject, delivery.data, digest, delivery.stored_at
                )
                await self._authors.ensure(recorded)
                yield recorded
                if end is not None and delivery.sequence >= end:
                    return
        finally:
            await deliveries.aclose()

    async def extent(self, stream: str) -> Extent:
        state = (await ask(self._link, f"STREAM.INFO.{stream}"))["state"]
        return Extent(state["first_seq"], state["last_seq"], state["messages"], state["bytes"])

    async def _own_or_conflict(
        self, subject: str, expected: Version, commit_id: str, error: PublishRefusedError
    ) -> Version:
        """A retry after a lost reply fails with "wrong last sequence": the commit may be stored already.

        The leader named the commit that is in the way, so a read that does not show it proves nothing.
        """
        named = sequence_in(error.description)
        until = time.monotonic() + self._timeout
        while True:
            history, version = await self.read(subject)
            for recorded in reversed(history):
                if recorded.commit.id == commit_id:
                    return recorded.version()
            if version.sequence >= named and version != expected:
                raise ConflictError(f"{subject} is at commit {version.number}") from error
            if time.monotonic() >= until:
                raise UnknownOutcomeError(f"{subject}: position {named} cannot be read") from error
            await asyncio.sleep(LOOK_SECONDS)

    async def _own_or_moved(self, subject: str, commit_id: str, error: PublishRefusedError) -> Version:
        """The same for an append that expects the end of the stream: the error names a position of the
        stream, which the replica that is read must hold."""
        named = sequence_in(error.description)
        until = time.monotonic() + self._timeout
        while (await self.extent(stream_of(subject))).last < named:
            if time.monotonic() >= until:
                raise UnknownOutcomeError(f"{subject}: position {named} cannot be read") from error
            await asyncio.sleep(LOOK_SECONDS)
        history, _ = await self.read(subject)
        for recorded in reversed(history):
            if recorded.commit.id == commit_id:
                return recorded.version()
        raise ConflictError(f"{stream_of(subject)} has grown to {named}") from error

    async def _last_sequence(self, stream: str, subject: str) -> int:
        if not subject:
            return (await self.extent(stream)).last
        last = await self._reader.last(stream, subject)
        return last.sequence if last else 0
