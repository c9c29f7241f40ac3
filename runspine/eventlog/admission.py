"""Which messages of the log a reader accepts: the commits that decode, chain, belong on their subject, and
are signed by an author who may write there.

The first message that is not accepted quarantines its subject: the commits before it count, nothing after it
does, until a commit with SubjectReleased follows the last accepted one. Every reader of a stream comes to the
same result, because it depends on the messages of the subject alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from enum import Enum

from runspine.eventlog.chain import commit_problem
from runspine.eventlog.fact_kinds import release_in
from runspine.eventlog.port import AuthorCheck, CorruptError, EventLog, Recorded, Version
from runspine.eventlog.subjects import SIGNERS
from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.run_pb2 import ChainState, Quarantine
from runspine.wire.v1.trainer_pb2 import LogRecord

# Bytes of a digest that are kept of each subject.
DIGEST_BYTES = 16
NUMBER_BYTES = 8


class Admitted(Enum):
    """What became of a message."""

    ACCEPTED = "accepted"
    RELEASED = "released"
    REJECTED = "rejected"
    # On signers.*, where each message counts by its signature alone: a keyring decides, not the chain.
    KEY = "key"

    @property
    def counts(self) -> bool:
        """Whether it is a commit to fold."""
        return self in (Admitted.ACCEPTED, Admitted.RELEASED)


class Admission:
    """Decides on the messages of streams in their order, and keeps the quarantined subjects."""

    def __init__(self, chains: ChainState | None = None, authors: AuthorCheck | None = None) -> None:
        self._authors = authors
        self._chains = chains if chains is not None else ChainState()
        self._heads = dict(zip(self._chains.subjects, self._chains.heads, strict=True))
        self.quarantined = {each.subject: each for each in self._chains.quarantines if not each.released}
        # By subject, in order: those that were released as well.
        self._quarantines: dict[str, list[Quarantine]] = {}
        for each in self._chains.quarantines:
            self._quarantines.setdefault(each.subject, []).append(each)

    @property
    def quarantines(self) -> Sequence[Quarantine]:
        """Every quarantine, those that were released as well, in order."""
        return self._chains.quarantines

    def dump(self) -> ChainState:
        """The state, from which another Admission continues."""
        return self.capture()()

    def capture(self) -> Callable[[], ChainState]:
        """A function that returns the state as it is now, from any thread."""
        subjects, heads = list(self._heads), list(self._heads.values())
        quarantines = ChainState(quarantines=self._chains.quarantines)

        def assemble() -> ChainState:
            return ChainState(subjects=subjects, heads=heads, quarantines=quarantines.quarantines)

        return assemble

    def admit(self, recorded: Recorded) -> Admitted:
        """Accept the next message of its stream, or quarantine its subject."""
        if recorded.subject.startswith(SIGNERS):
            return Admitted.KEY
        quarantine = self.quarantined.get(recorded.subject)
        problem = commit_problem(self._head(recorded.subject), recorded, DIGEST_BYTES)
        if not problem and self._authors is not None:
            problem = self._authors.problem(recorded)
        if quarantine is None and not problem:
            self._accept(recorded)
            return Admitted.ACCEPTED
        if quarantine is not None and not problem and _releases(recorded, quarantine):
            self._accept(recorded)
            quarantine.released = recorded.sequence
            del self.quarantined[recorded.subject]
            return Admitted.RELEASED
        self._reject(recorded, quarantine, problem)
        return Admitted.REJECTED

    def last_of(self, subject: str) -> Quarantine:
        """The newest quarantine of a subject."""
        return self._quarantines[subject][-1]

    def rejected(self, recorded: Recorded) -> bool:
        """Whether a message that was decided on before was not accepted."""
        return any(
            each.first <= recorded.sequence <= each.last
            for each in self._quarantines.get(recorded.subject, ())
        )

    def _head(self, subject: str) -> Version:
        kept = self._heads.get(subject)
        if kept is None:
            return Version()
        return Version(0, int.from_bytes(kept[:NUMBER_BYTES], "big"), kept[NUMBER_BYTES:])

    def _accept(self, recorded: Recorded) -> None:
        number = recorded.commit.number.to_bytes(NUMBER_BYTES, "big")
        self._heads[recorded.subject] = number + recorded.digest[:DIGEST_BYTES]

    def _reject(self, recorded: Recorded, quarantine: Quarantine | None, problem: str) -> None:
        if quarantine is None:
            quarantine = self._chains.quarantines.add(
                subject=recorded.subject,
                stream=recorded.stream,
                first=recorded.sequence,
                reason=problem,
                at=recorded.stored_at,
            )
            self.quarantined[recorded.subject] = quarantine
            self._quarantines.setdefault(recorded.subject, []).append(quarantine)
        quarantine.last = recorded.sequence
        quarantine.messages += 1


def _releases(recorded: Recorded, quarantine: Quarantine) -> bool:
    return release_in(recorded.commit) == (quarantine.first, quarantine.last)


def accepted_history(messages: Iterable[Recorded], authors: AuthorCheck | None = None) -> list[Recorded]:
    """The commits among all messages of one subject. Raises CorruptError when it is quarantined."""
    admission = Admission(authors=authors)
    accepted = [each for each in messages if admission.admit(each).counts]
    for quarantine in admission.quarantined.values():
        raise CorruptError(describe(quarantine), accepted)
    return accepted


def accepted_facts(
    records: Iterable[LogRecord], admission: Admission | None = None
) -> Iterator[tuple[LogRecord, Fact]]:
    """The facts that count among all records of subjects, as the service hands them out."""
    admission = admission or Admission()
    for record in records:
        recorded = Recorded(
            record.stream, record.sequence, record.subject, record.commit, record.digest, record.stored_at
        )
        if admission.admit(recorded).counts:
            for fact in recorded.commit.facts:
                yield record, fact


async def follow_accepted(
    log: EventLog, stream: str, subject: str, *, live: bool = True
) -> AsyncGenerator[Recorded, None]:
    """The accepted commits of one subject from its first one on."""
    admission = Admission(authors=log.authors)
    async with aclosing(log.follow(stream, subject=subject, live=live)) as messages:
        async for recorded in messages:
            if admission.admit(recorded).counts:
                yield recorded


def describe(quarantine: Quarantine) -> str:
    """Where and why, and the remedy."""
    return (
        f"{quarantine.stream} {quarantine.first} on {quarantine.subject}: {quarantine.reason}. The subject "
        f"is quarantined: restore a backup, or accept the loss of {_messages(quarantine)} with "
        f"`runspine events release {quarantine.subject}`"
    )


def _messages(quarantine: Quarantine) -> str:
    if quarantine.messages == 1:
        return f"the message at {quarantine.first}"
    return f"{quarantine.messages} messages from {quarantine.first} to {quarantine.last}"
