"""The hash chain of commits on each subject: sealing a commit and checking the links."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runspine.eventlog.fact_kinds import misplaced_fact, release_in
from runspine.eventlog.port import AuthorCheck, CorruptError, Recorded, Version
from runspine.eventlog.subjects import SIGNERS
from runspine.wire.v1.facts_pb2 import Commit, Fact


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class Signs(Protocol):
    """A key that signs commits."""

    id: str

    def sign(self, subject: str, body: bytes) -> bytes: ...


def seal(
    expected: Version,
    facts: Sequence[Fact],
    commit_id: str,
    writer: str,
    *,
    subject: str = "",
    key: Signs | None = None,
) -> bytes:
    """The bytes of the commit that follows `expected`; with a key, signed for its subject."""
    commit = Commit(
        id=commit_id,
        number=expected.number + 1,
        previous=expected.digest,
        writer=writer,
        facts=facts,
        signer=key.id if key else "",
    )
    body = commit.SerializeToString(deterministic=True)
    return key.sign(subject, body) if key else body


def commit_problem(before: Version, recorded: Recorded, digest_bytes: int = 32) -> str:
    """Why this message is not the commit that follows `before` on its subject; empty when it is.

    Only the first `digest_bytes` of the digest of `before` are compared.
    """
    if not recorded.digest:
        return f"commit {before.number + 1} has no digest: it is not a commit of Runspine"
    if recorded.computed_digest != recorded.digest:
        return f"commit {before.number + 1} was changed: its digest does not match"
    try:
        commit = recorded.commit
    except CorruptError:
        return f"commit {before.number + 1} cannot be read: its bytes are not a commit"
    if commit.number != before.number + 1:
        return f"commit {before.number + 1} is missing: commit {commit.number} is next"
    if commit.previous[:digest_bytes] != before.digest[:digest_bytes]:
        return f"commit {commit.number} does not follow the commit before it"
    return misplaced_fact(recorded.subject, commit)


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
class SubjectChains:
    """The chains of subjects of one stream: takes their commits in order and collects the problems."""

    stream: str
    heads: dict[str, Version] = field(default_factory=dict)
    problems: list[ChainProblem] = field(default_factory=list)
    # Problems of subjects that an operator has released since.
    released: list[ChainProblem] = field(default_factory=list)
    authors: AuthorCheck | None = None
    # Commits with a signature, and those without one.
    signed: int = 0
    unsigned: int = 0
    # By subject: the last commit before its first problem, and the positions of that and of the last message.
    _quarantined: dict[str, tuple[Version, int, int]] = field(default_factory=dict)

    def follow(self, recorded: Recorded) -> None:
        """Check the next commit of its subject."""
        sequence, subject = recorded.sequence, recorded.subject
        if subject.startswith(SIGNERS):
            return
        before = self.heads.get(subject, Version())
        if self._is_release(recorded):
            self.heads[subject] = recorded.version()
            return
        # After a damaged commit the walk continues as if it were whole, so that a problem is reported once.
        self.heads[subject] = Version(sequence, before.number + 1, recorded.digest)
        if problem := commit_problem(before, recorded) or self._author_problem(recorded):
            first = self._quarantined.get(subject, (before, sequence, sequence))
            self._quarantined[subject] = (*first[:2], sequence)
            self._add(sequence, subject, problem)
        elif subject in self._quarantined:
            self._quarantined[subject] = (*self._quarantined[subject][:2], sequence)
        if recorded.digest == recorded.computed_digest:
            with contextlib.suppress(CorruptError):
                self.heads[subject] = recorded.version()

    def _author_problem(self, recorded: Recorded) -> str:
        """Why its author does not count. The commit decodes."""
        if recorded.commit.signer:
            self.signed += 1
        else:
            self.unsigned += 1
        return self.authors.problem(recorded) if self.authors is not None else ""

    def _is_release(self, recorded: Recorded) -> bool:
        """Whether this commit follows the last one before the problems of its subject, and releases it."""
        before, first, last = self._quarantined.get(recorded.subject, (Version(), 0, 0))
        if not first or commit_problem(before, recorded) or release_in(recorded.commit) != (first, last):
            return False
        if self._author_problem(recorded):
            return False
        del self._quarantined[recorded.subject]
        self.released += [each for each in self.problems if each.subject == recorded.subject]
        self.problems = [each for each in self.problems if each.subject != recorded.subject]
        return True

    def _add(self, sequence: int, subject: str, what: str) -> None:
        self.problems.append(ChainProblem(self.stream, sequence, subject, what))


@dataclass(slots=True)
class ChainVerifier(SubjectChains):
    """Reads one stream from its first position and collects its problems."""

    sequence: int = 0
    commits: int = 0
    witnesses: dict[int, bytes] = field(default_factory=dict)

    def feed(self, sequence: int, subject: str, data: bytes, digest: bytes) -> None:
        """Check the next commit of the stream."""
        recorded = Recorded(self.stream, sequence, subject, data, digest, 0)
        self.place(recorded)
        self.follow(recorded)

    def place(self, recorded: Recorded) -> None:
        """Check the position of the next commit of the stream, and nothing else of it."""
        sequence, expected = recorded.sequence, self.sequence + 1
        if sequence != expected:
            gap = f"{expected}" if sequence == expected + 1 else f"{expected} to {sequence - 1}"
            self._add(expected, "", f"position {gap} is missing")
        self.sequence = sequence
        self.commits += 1
        witness = self.witnesses.get(sequence)
        if witness is not None and witness != recorded.computed_digest:
            self._add(sequence, recorded.subject, "this is not the commit that a snapshot was made from")

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
