"""The port every reader and writer of the log goes through."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import DecodeError

from runspine.wire.v1.facts_pb2 import Commit, Fact


class Conflict(Exception):
    """Another writer was first: nothing was stored. Read again and decide again."""


class Unknown(Exception):
    """No answer in time: the commit may or may not be stored. Retry with the same commit id."""


class Corrupt(Exception):
    """The stored commits do not form a whole chain."""


@dataclass(frozen=True, slots=True)
class Version:
    """Where a subject stands: what an append must find there, else it is refused."""

    sequence: int = 0
    number: int = 0
    digest: bytes = b""


class Recorded:
    """One commit as the log holds it. It is parsed when first asked for, so that a reader of raw
    bytes (verify, export) is not stopped by one that is damaged."""

    __slots__ = ("_commit", "data", "digest", "sequence", "stored_at", "stream", "subject")

    def __init__(
        self, stream: str, sequence: int, subject: str, data: bytes, digest: bytes, stored_at: int
    ) -> None:
        self.stream = stream
        self.sequence = sequence
        self.subject = subject
        self.data = data
        self.digest = digest
        self.stored_at = stored_at
        self._commit: Commit | None = None

    @property
    def commit(self) -> Commit:
        """Raises Corrupt when the bytes are not a commit."""
        if self._commit is None:
            try:
                self._commit = Commit.FromString(self.data)
            except DecodeError as error:
                raise Corrupt(f"{self.stream} {self.sequence} on {self.subject}: not a commit") from error
        return self._commit

    def version(self) -> Version:
        return Version(self.sequence, self.commit.number, self.digest)


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a stream reaches."""

    first: int
    last: int
    commits: int
    bytes: int


class EventLog(Protocol):
    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        """The whole history of a subject, and the version to append after."""

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
    ) -> Version:
        """Store one commit if the subject still stands at `expected`.

        Raises Conflict when it does not, Unknown when no answer came. After Unknown, the same
        call with the same commit id is safe: it is stored once.
        """

    def follow(
        self, stream: str, *, after: int = 0, subject: str = "", live: bool = True
    ) -> AsyncGenerator[Recorded, None]:
        """Commits after a position, in order, each once; then new ones while `live`."""

    async def extent(self, stream: str) -> Extent:
        """First and last position of a stream."""
