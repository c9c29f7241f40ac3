"""Reads of one subject that a decision may rest on.

A direct get may be answered by any replica, and a follower may lack what was acknowledged a moment ago. So
the leader of the stream is asked for the last commit of the subject. The commits before it no longer change:
they come from any replica, and from the leader when that replica is behind, damaged or silent.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from runspine.eventlog.admission import accepted_history
from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.port import AuthorCheck, CorruptError, Recorded
from runspine.eventlog.server_errors import NO_MESSAGE, ServerRefusedError
from runspine.eventlog.subjects import stream_of

DIGEST = "Runspine-Digest"
# Headers that the server adds to a stored message.
SEQUENCE, STORED_AT = "Nats-Sequence", "Nats-Time-Stamp"
EPOCH = datetime.fromtimestamp(0, UTC)
MICROSECOND = timedelta(microseconds=1)
READ_BATCH = 500
# How long a replica may be silent, and for how long all is read from the leader after one was.
DIRECT_SECONDS = 0.5
LEADER_ONLY_SECONDS = 10.0


class KnowsAuthors(Protocol):
    """Keeps the keys of the log up to date."""

    @property
    def check(self) -> AuthorCheck: ...

    async def ensure(self, *messages: Recorded) -> None:
        """Know the keys of messages, if the log does."""


class SubjectReader:
    """Reads histories of subjects as their leader has them."""

    def __init__(self, link: NatsConnection, authors: KnowsAuthors | None = None) -> None:
        self._link = link
        self._authors = authors
        self._direct_from = 0.0

    async def history(self, subject: str) -> list[Recorded]:
        """Every accepted commit of a subject up to its last message at the time of the call.

        Raises CorruptError, and NatsUnreachableError when no leader answers.
        """
        last = await self.last(stream_of(subject), subject)
        if last is None:
            return []
        # Although the last commit states number 1: a copy of the first one must not hide what is before it.
        messages = await self._up_to(last, await self._direct(last))
        try:
            return await self._accepted(messages)
        except CorruptError:
            # The replica that answered may be the only damaged one.
            return await self._accepted(await self._up_to(last, []))

    async def _accepted(self, messages: list[Recorded]) -> list[Recorded]:
        if self._authors is None:
            return accepted_history(messages)
        await self._authors.ensure(*messages)
        return accepted_history(messages, self._authors.check)

    async def last(self, stream: str, subject: str) -> Recorded | None:
        """The newest message of a subject (or pattern of subjects), from the leader."""
        return await self._from_leader(stream, {"last_by_subj": subject})

    async def next(self, stream: str, subject: str, after: int) -> Recorded | None:
        """The first message of a subject after a position, from the leader."""
        return await self._from_leader(stream, {"seq": after + 1, "next_by_subj": subject})

    async def _up_to(self, last: Recorded, history: list[Recorded]) -> list[Recorded]:
        """A history completed up to this commit, from the leader."""
        while not history or history[-1].sequence < last.sequence:
            after = history[-1].sequence if history else 0
            found = await self.next(last.stream, last.subject, after)
            if found is None:
                raise NatsUnreachableError(f"{last.subject}: the leader no longer has what it reported")
            history.append(found)
        return history

    async def _direct(self, last: Recorded) -> list[Recorded]:
        """The commits up to this one from any replica; fewer when it is behind or does not answer."""
        history: list[Recorded] = []
        start, began = 1, 0
        while time.monotonic() >= self._direct_from and began < start <= last.sequence:
            began = start
            body = json.dumps({"batch": READ_BATCH, "seq": start, "next_by_subj": last.subject}).encode()
            answers = self._link.replies(f"$JS.API.DIRECT.GET.{last.stream}", body, DIRECT_SECONDS)
            try:
                async with aclosing(answers):
                    async for headers, data in answers:
                        recorded = _from_direct(last.stream, headers, data)
                        start = recorded.sequence + 1
                        history.append(recorded)
            except NatsUnreachableError:
                self._direct_from = time.monotonic() + LEADER_ONLY_SECONDS
        return [recorded for recorded in history if recorded.sequence <= last.sequence]

    async def _from_leader(self, stream: str, body: dict[str, Any]) -> Recorded | None:
        try:
            answer = await ask(self._link, f"STREAM.MSG.GET.{stream}", body)
        except ServerRefusedError as error:
            if error.code == NO_MESSAGE:
                return None
            raise
        message = answer["message"]
        headers = _headers(base64.b64decode(message.get("hdrs", "")))
        return Recorded(
            stream,
            message["seq"],
            message["subject"],
            base64.b64decode(message.get("data", "")),
            stated_digest(headers),
            micros(message["time"]),
        )


def stated_digest(headers: Mapping[str, str] | None) -> bytes:
    """The digest that a message states; empty when it states none."""
    try:
        return bytes.fromhex((headers or {}).get(DIGEST, ""))
    except ValueError:
        return b""


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.decode(errors="replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}


def _from_direct(stream: str, headers: dict[str, str], data: bytes) -> Recorded:
    return Recorded(
        stream,
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        data,
        stated_digest(headers),
        stored_at(headers),
    )


def stored_at(headers: Mapping[str, str]) -> int:
    """When the message was stored, in microseconds."""
    return micros(headers[STORED_AT])


def micros(text: str) -> int:
    """A time of the server in microseconds; its nanoseconds are cut off."""
    return (datetime.fromisoformat(text) - EPOCH) // MICROSECOND
