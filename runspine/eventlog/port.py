"""The port of the log, used by every reader and writer."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import DecodeError

from runspine.wire.v1.facts_pb2 import Commit, Fact


class ConflictError(Exception):
    """Another writer was first and nothing was stored: read and decide again."""


class UnknownOutcomeError(Exception):
    """No reply in time: the commit may or may not be stored. Retry with the same commit id."""


class CorruptError(Exception):
    """The stored commits do not form a whole chain. `accepted` are those before the first problem."""

    def __init__(self, message: str, accepted: Sequence[Recorded] = ()) -> None:
        super().__init__(message)
        self.accepted = list(accepted)


@dataclass(frozen=True, slots=True)
class Version:
    """The last commit of a subject, which an append must expect."""

    sequence: int = 0
    number: int = 0
    digest: bytes = b""


class Recorded:
    """A stored commit. It is parsed on first use, so that a reader of raw bytes (verify, export) is not
    stopped by a damaged one."""

    __slots__ = ("_commit", "_computed", "data", "digest", "sequence", "stored_at", "stream", "subject")

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
        self._computed = b""

    @property
    def commit(self) -> Commit:
        """Raises CorruptError when the bytes are not a commit."""
        if self._commit is None:
            try:
                self._commit = Commit.FromString(self.data)
            except DecodeError as error:
                raise CorruptError(
                    f"{self.stream} {self.sequence} on {self.subject}: not a commit"
                ) from error
        return self._commit

    @property
    def computed_digest(self) -> bytes:
        """The digest of the bytes; `digest` is what the message states."""
        if not self._computed:
            self._computed = hashlib.sha256(self.data).digest()
        return self._computed

    def version(self) -> Version:
        """The version of the subject after this commit."""
        return Version(self.sequence, self.commit.number, self.digest)


@dataclass(frozen=True, slots=True)
class Extent:
    """First and last position of a stream, and its size."""

    first: int
    last: int
    commits: int
    bytes: int


class AuthorCheck(Protocol):
    """Decides whether the author of a commit counts."""

    def problem(self, recorded: Recorded) -> str:
        """Why it does not; empty when it does. The commit decodes."""


class EventLog(Protocol):
    """An append-only log of commits, with optimistic concurrency for each subject."""

    @property
    def authors(self) -> AuthorCheck | None:
        """The check of signatures; None when there is none."""

    async def read(self, subject: str) -> tuple[list[Recorded], Version]:
        """The whole history of a subject, and the version to append after."""

    async def append(
        self,
        subject: str,
        facts: Sequence[Fact],
        *,
        expected: Version,
        commit_id: str = "",
        stream_end: int | None = None,
    ) -> Version:
        """Store one commit if `expected` is the last version of the subject and, where it is given,
        `stream_end` the last position of the whole stream.

        Raises ConflictError when it is not, UnknownOutcomeError when no reply came. After the latter, the
        same call with the same commit id is safe: it is stored once.
        """

    def follow(
        self, stream: str, *, after: int = 0, subject: str = "", live: bool = True
    ) -> AsyncGenerator[Recorded, None]:
        """Commits after a position, in order, each once; then new ones while `live`."""

    async def extent(self, stream: str) -> Extent:
        """First and last position of a stream."""
