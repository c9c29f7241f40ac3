"""The hash chain of commits on each subject: sealing a commit and checking the links."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runspine.eventlog.port import CorruptError, Recorded, Version
from runspine.wire.v1.facts_pb2 import Commit, Fact


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def seal(expected: Version, facts: Sequence[Fact], commit_id: str, writer: str) -> bytes:
    """The bytes of the commit that follows `expected`."""
    commit = Commit(
        id=commit_id,
        number=expected.number + 1,
        previous=expected.digest,
        writer=writer,
        facts=facts,
    )
    return commit.SerializeToString(deterministic=True)


def check_history(history: Iterable[Recorded]) -> None:
    """Raise CorruptError unless these are all commits of one subject, unbroken."""
    before = Version()
    for recorded in history:
        problem = link_problem(before, recorded)
        if problem:
            raise CorruptError(f"{recorded.stream} {recorded.sequence} on {recorded.subject}: {problem}")
        before = recorded.version()


def link_problem(before: Version, recorded: Recorded) -> str:
    """Why this commit does not follow the one before it; empty when it does."""
    if digest_of(recorded.data) != recorded.digest:
        return f"commit {recorded.commit.number} was changed: its bytes do not match its digest"
    if recorded.commit.number != before.number + 1:
        return f"commit {before.number + 1} is missing: commit {recorded.commit.number} is next"
    if recorded.commit.previous != before.digest:
        return f"commit {recorded.commit.number} does not follow the commit before it"
    return ""


@dataclass(frozen=True, slots=True)
class ChainProblem:
    """One position at which a stream is not whole."""

    stream: str
    sequence: int
    subject: str
    what: str

    def __str__(self) -> str:
        where = f"{self.stream} {self.sequence}"
        return f"{where} on {self.subject}: {self.what}" if self.subject else f"{where}: {self.what}"


@dataclass(slots=True)
class ChainVerifier:
    """Reads one stream from its first position and collects its problems."""

    stream: str
    sequence: int = 0
    commits: int = 0
    heads: dict[str, Version] = field(default_factory=dict)
    problems: list[ChainProblem] = field(default_factory=list)
    witnesses: dict[int, bytes] = field(default_factory=dict)

    def feed(self, sequence: int, subject: str, data: bytes, digest: bytes) -> None:
        """Check the next commit of the stream."""
        if sequence != self.sequence + 1:
            gap = (
                f"{self.sequence + 1}"
                if sequence == self.sequence + 2
                else f"{self.sequence + 1} to {sequence - 1}"
            )
            self._add(self.sequence + 1, "", f"position {gap} is missing")
        self.sequence = sequence
        self.commits += 1
        self._check_witness(sequence, subject, digest_of(data))
        before = self.heads.get(subject, Version())
        # After a damaged commit the walk continues as if it were whole, so that a problem is reported once.
        self.heads[subject] = Version(sequence, before.number + 1, digest)
        recorded = Recorded(self.stream, sequence, subject, data, digest, 0)
        if digest_of(data) != digest:
            self._add(sequence, subject, f"commit {before.number + 1} was changed: its digest does not match")
            return
        try:
            problem = link_problem(before, recorded)
            self.heads[subject] = recorded.version()
        except CorruptError:
            problem = f"commit {before.number + 1} cannot be read: its bytes are not a commit"
        if problem:
            self._add(sequence, subject, problem)

    def finish(self, last_sequence: int) -> list[ChainProblem]:
        """Compare the last position read with the known end of the stream; all problems found."""
        furthest = max([last_sequence, *self.witnesses])
        if self.sequence < furthest:
            self._add(
                self.sequence + 1,
                "",
                f"the stream ends at {self.sequence}, but position {furthest} had been written",
            )
        return self.problems

    def _check_witness(self, sequence: int, subject: str, digest: bytes) -> None:
        witness = self.witnesses.get(sequence)
        if witness is not None and witness != digest:
            self._add(sequence, subject, "this is not the commit that a snapshot was made from")

    def _add(self, sequence: int, subject: str, what: str) -> None:
        self.problems.append(ChainProblem(self.stream, sequence, subject, what))
