"""The log on NATS JetStream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import Counter

from runspine.ids import new_ulid
from runspine.log.chain import check_history, digest_of, seal
from runspine.log.link import Link, Unreachable
from runspine.log.port import Conflict, Corrupt, Extent, Recorded, Unknown, Version
from runspine.log.publisher import EXPECTED, MESSAGE_ID, Publisher, Refused
from runspine.log.subjects import stream_of
from runspine.log.tail import Tail
from runspine.wire.v1.facts_pb2 import Fact

CORRUPT = Counter("runspine_log_corrupt", "Histories read that do not form a whole chain")
DIGEST = "Runspine-Digest"
WRONG_SEQUENCE = {10071, 10164}
READ_BATCH = 500
READ_TRIES = 4


class JetStreamLog:
    def __init__(self, link: Link, publisher: Publisher, *, timeout: float = 10.0) -> None:
        self._link = link
        self._publisher = publisher
        self._timeout = timeout

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        history = await self._read_whole(subject)
        try:
            check_history(history)
        except Corrupt:
            CORRUPT.inc()
            raise
        return history, history[-1].version() if history else Version()

    async def append(
        self, subject: str, facts: Sequence[Fact], *, expected: Version, commit_id: str = ""
    ) -> Version:
        commit_id = commit_id or new_ulid()
        data = seal(expected, facts, commit_id, self._link.name)
        digest = digest_of(data)
        headers = {
            MESSAGE_ID: commit_id,
            EXPECTED: str(expected.sequence),
            DIGEST: digest.hex(),
        }
        try:
            async with asyncio.timeout(self._timeout):
                sequence = await self._publisher.publish(subject, data, headers)
        except TimeoutError as error:
            raise Unknown(f"{subject}: no answer within {self._timeout} s") from error
        except Refused as error:
            if error.code not in WRONG_SEQUENCE:
                raise
            return await self._own_or_conflict(subject, commit_id, error)
        return Version(sequence, expected.number + 1, digest)

    async def follow(
        self, stream: str, *, after: int = 0, subject: str = "", live: bool = True
    ) -> AsyncGenerator[Recorded, None]:
        end = None if live else await self._last_sequence(stream, subject)
        if end is not None and end <= after:
            return
        deliveries = Tail(self._link, stream, after=after, subject=subject).deliveries()
        try:
            async for delivery in deliveries:
                message = delivery.message
                digest = bytes.fromhex((message.headers or {}).get(DIGEST, ""))
                yield Recorded(
                    stream, delivery.sequence, message.subject, message.data, digest, delivery.stored_at
                )
                if end is not None and delivery.sequence >= end:
                    return
        finally:
            await deliveries.aclose()

    async def extent(self, stream: str) -> Extent:
        state = (await self._info(stream))["state"]
        return Extent(state["first_seq"], state["last_seq"], state["messages"], state["bytes"])

    async def _own_or_conflict(self, subject: str, commit_id: str, error: Exception) -> Version:
        """A retry after a lost answer meets "wrong last sequence": perhaps the last one is ours."""
        history, version = await self.read(subject)
        for recorded in reversed(history):
            if recorded.commit.id == commit_id:
                return recorded.version()
        raise Conflict(f"{subject} stands at commit {version.number}") from error

    async def _read_whole(self, subject: str) -> list[Recorded]:
        """Read, and read again when the question or an answer was lost with a connection."""
        for last in (False,) * (READ_TRIES - 1) + (True,):
            history: list[Recorded] = []
            try:
                while await self._read_more(subject, history):
                    pass
            except Unreachable:
                if last:
                    raise
                await asyncio.sleep(0.05)
            else:
                return history
        raise AssertionError("unreachable")

    async def _read_more(self, subject: str, history: list[Recorded]) -> bool:
        """One batch of direct reads; whether there may be more."""
        stream = stream_of(subject)
        start = history[-1].sequence + 1 if history else 1
        body = json.dumps({"batch": READ_BATCH, "seq": start, "next_by_subj": subject}).encode()
        before = len(history)
        async for headers, data in self._link.replies(f"$JS.API.DIRECT.GET.{stream}", body):
            history.append(_from_direct(stream, headers, data))
        return len(history) - before == READ_BATCH

    async def _last_sequence(self, stream: str, subject: str) -> int:
        if not subject:
            return (await self.extent(stream)).last
        body = json.dumps({"last_by_subj": subject}).encode()
        message = await self._link.request(f"$JS.API.DIRECT.GET.{stream}", body)
        return int((message.headers or {}).get("Nats-Sequence", "0"))

    async def _info(self, stream: str) -> dict[str, Any]:
        answer = json.loads((await self._link.request(f"$JS.API.STREAM.INFO.{stream}", b"")).data)
        if "error" in answer:
            raise Unreachable(f"stream {stream}: {answer['error'].get('description')}")
        info: dict[str, Any] = answer
        return info


def _from_direct(stream: str, headers: dict[str, str], data: bytes) -> Recorded:
    return Recorded(
        stream,
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        data,
        bytes.fromhex(headers.get(DIGEST, "")),
        int(datetime.fromisoformat(headers["Nats-Time-Stamp"]).timestamp() * 1e6),
    )
